"""Run the tests of DGL and PyG with their layers replaced by those of graphut.

    python -m tests.foreign_suites FOLDER [FOLDER ...]

A folder is a checkout of DGL at v1.1.3 or of PyG at 2.8.0. Only the classes are replaced, and
nothing is written into the folder. Other arguments are passed on to pytest.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Suite:
    """Tests of another package, and the statements that replace its classes."""

    file: str  # path of the tests in a checkout
    helpers: str  # folder from which the tests import
    replace: str  # statements that replace the classes
    tests: str  # argument of pytest's -k


SUITES = (
    Suite(
        file="tests/python/pytorch/nn/test_nn.py",
        helpers="tests",
        replace="from graphut.nn import DotGATConv; import dgl.nn.pytorch as nn; "
        "nn.GATConv = nn.GATv2Conv = nn.DotGatConv = DotGATConv",
        tests="test_gat_conv or test_gatv2_conv or test_dotgat_conv",
    ),
    Suite(
        file="test/nn/conv/test_transformer_conv.py",
        helpers=".",
        replace="from graphut.nn.pyg_layers import TransformerConv; import torch_geometric.nn; "
        "torch_geometric.nn.TransformerConv = TransformerConv",
        tests="test_transformer_conv",
    ),
)


def run(suite: Suite, checkout: Path, *options: str) -> int:
    """Run a suite in a new Python process and return its exit status."""
    paths = [str(checkout / suite.helpers), str(ROOT)]
    given = ["-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(checkout), "-q"]
    given += [str(checkout / suite.file), "-k", suite.tests, *options]
    code = f"import sys; sys.path[:0] = {paths}; {suite.replace}; import pytest; "
    code += f"sys.exit(pytest.main({given}))"
    return subprocess.run([sys.executable, "-B", "-c", code], cwd=checkout, check=False).returncode


def main(arguments: list[str]) -> int:
    """Run the suites of all given folders and return 0 if they pass."""
    folders = [Path(argument).resolve() for argument in arguments if Path(argument).is_dir()]
    options = [argument for argument in arguments if not Path(argument).is_dir()]
    found = [(s, folder) for folder in folders for s in SUITES if (folder / s.file).is_file()]
    if len(found) < max(1, len(folders)):
        print(
            f"usage: python -m tests.foreign_suites FOLDER; of {folders or 'no folder'}, "
            f"{len(found)} have one of: {', '.join(suite.file for suite in SUITES)}"
        )
        return 2
    return max(run(suite, folder, *options) for suite, folder in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
