"""Run the tests of PyG's `TransformerConv` with the layer replaced by graphut's.

    python -m tests.foreign_suites FOLDER [FOLDER ...]

A folder is a checkout of PyG at 2.8.0. Only the class is replaced, and nothing is written into the
folder. Other arguments are passed on to pytest.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = "test/nn/conv/test_transformer_conv.py"
REPLACE = (
    "from graphut.nn.pyg_layers import TransformerConv; import torch_geometric.nn; "
    "torch_geometric.nn.TransformerConv = TransformerConv"
)


def run(checkout: Path, *options: str) -> int:
    """Run the tests in a new Python process and return its exit status."""
    given = ["-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(checkout), "-q"]
    given += [str(checkout / FILE), "-k", "test_transformer_conv", *options]
    code = f"import sys; sys.path[:0] = {[str(checkout), str(ROOT)]}; {REPLACE}; import pytest; "
    code += f"sys.exit(pytest.main({given}))"
    return subprocess.run([sys.executable, "-B", "-c", code], cwd=checkout, check=False).returncode


def main(arguments: list[str]) -> int:
    """Run the tests of all given folders and return 0 if they pass."""
    folders = [Path(argument).resolve() for argument in arguments if Path(argument).is_dir()]
    options = [argument for argument in arguments if not Path(argument).is_dir()]
    if not folders or not all((folder / FILE).is_file() for folder in folders):
        print(f"usage: python -m tests.foreign_suites FOLDER, each with {FILE}; got {folders}")
        return 2
    return max(run(folder, *options) for folder in folders)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
