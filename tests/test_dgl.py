"""Tests of `graphut._dgl` with made-up DGL packages, each in a Python process of its own."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from graphut import _dgl

FILE = Path(_dgl.__file__)
LOAD = f"""
import runpy, sys
loaded = runpy.run_path({str(FILE)!r})
dgl = loaded["dgl"]
"""
WORKS = {
    "__init__.py": """
        import os
        from . import first, graphbolt
        backend = os.environ.get("DGLBACKEND")
        class DGLGraph: pass
    """,
    "first.py": "import dgl",
    "graphbolt.py": "works = True",
}
PIP = "dgl>=1.1.3,<2" if sys.version_info < (3, 12) else "dgl>=2.1,<3"
REMEDY = f"Try: pip install '{PIP}'" if sys.version_info < (3, 13) else "Try Python 3.12."
LAYOUTS = "Without DGL, pass a layout instead of a graph (topology.layout(lengths)"


def run(
    folder: Path, code: str, files: dict[str, str] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `code` in a new Python where `dgl` is a package of these files."""
    for name, text in (files or {}).items():
        path = folder / "dgl" / name
        path.parent.mkdir(exist_ok=True)
        lines = text.splitlines()
        path.write_text("\n".join(line.removeprefix(" " * 8) for line in lines))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("DGL", "PYTHON"))}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**clean, "PYTHONPATH": str(folder), "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.skipif(not _dgl.is_installed, reason="needs DGL")
def test_import_of_the_installed_dgl_prints_and_writes_nothing(tmp_path: Path) -> None:
    result = run(tmp_path, LOAD + "print(dgl.graph(([0], [1])).num_nodes())")
    assert (result.stdout, result.stderr) == ("2\n", "")
    assert list(tmp_path.iterdir()) == []


def test_import_leaves_a_working_dgl_alone(tmp_path: Path) -> None:
    code = LOAD + "print('dgl' in sys.modules, dgl.graphbolt.works, dgl.backend)"
    assert run(tmp_path, code, WORKS).stdout == "False True pytorch\n"
    assert run(tmp_path, code, WORKS, DGLBACKEND="mxnet").stdout == "False True mxnet\n"


@pytest.mark.parametrize(
    "failure",
    [
        "import torchdata.datapipes_that_went_away",
        "raise FileNotFoundError('libgraphbolt_pytorch_9.so')",
        "raise ImportError('Cannot load Graphbolt C++ library')",
        "from . import first; half = 1; raise OSError('undefined symbol')",
    ],
)
def test_users_import_succeeds_without_a_failing_graphbolt(tmp_path: Path, failure: str) -> None:
    code = LOAD + "import dgl; print(dgl.first.dgl is dgl, hasattr(dgl.graphbolt, 'half'))"
    result = run(tmp_path, code, {**WORKS, "graphbolt.py": failure})
    assert (result.stdout, result.stderr) == ("True False\n", "")


@pytest.mark.parametrize(
    ("first", "files", "words"),
    [
        ("import sys; sys.modules['dgl'] = None", {}, [LAYOUTS, REMEDY]),
        (
            "",
            {"__init__.py": "raise OSError('libdgl.so: too old')"},
            ["OSError: libdgl.so: too", f"This is Python {platform.python_version()};", REMEDY],
        ),
    ],
)
def test_import_error_names_the_reason_and_the_remedy(
    first: str, files: dict[str, str], words: list[str], tmp_path: Path
) -> None:
    code = first + LOAD
    assert run(tmp_path, f"{code}print(isinstance(1, loaded['DGLGraph']))").stdout == "False\n"
    result = run(tmp_path, code + "dgl.graph", files)
    assert result.returncode == 1
    message = result.stderr.partition("\nImportError: ")[2].strip()
    assert all(word in message for word in words) and message.endswith(words[-1])


def test_layers_kernels_and_topologies_work_without_dgl() -> None:
    code = """
import sys
sys.modules["dgl"] = None
import pytest, torch
from graphut import edge_attention, topology
from graphut.nn import LayerAsConv, MultiHeadAttention, from_edge_index
from tests.nn.cases import build_case, engine
edges = torch.tensor([[0, 1, 2, 0, 1, 2], [0, 1, 2, 1, 2, 1]])
x = torch.randn(3, 8)
assert LayerAsConv(MultiHeadAttention(8, 2))(x, edges).shape == (3, 8)
_, steps, *_ = engine(build_case(topology="rows").layer, from_edge_index(edges, 3), x.double())
assert steps.shape == (3,)
heads = x.view(3, 2, 4)
window = topology.parse("window:1")
out, weights = edge_attention(window.layout([3]), heads, heads, heads, get_attention=True)
for call in (
    lambda: window.graph([3]),
    lambda: edge_attention(window.layout([3]), heads, heads, heads, backend="dgl"),
):
    with pytest.raises(ImportError, match='(?s)graphut needs DGL.*sentences as lists.*Try'):
        call()
with pytest.raises(TypeError, match="expected a DGLGraph or an EdgeLayout, got Tensor"):
    edge_attention(edges, heads, heads, heads)
from graphut import models as m
sizes = {"d_model": 8, "num_heads": 2}
config = m.UniversalTransformerConfig(source_vocab=9, target_vocab=9, **sizes)
pairs = m.UniversalTransformer(config)
assert pairs([[5, 3], [2]], [[4], []]).logits.shape == (3, 9)
pairs.generate([[5, 3]], max_length=3)
m.UniversalTransformerLM(m.UniversalTransformerLMConfig(vocab_size=9, **sizes))([[5, 3]])
config = m.UniversalGraphTransformerConfig(num_kinds=2, classes=2, **sizes)
m.UniversalGraphTransformer(config)(topology.Complete().layout([3]), torch.tensor([0, 1, 1]))
"""
    subprocess.run([sys.executable, "-c", code], cwd=FILE.parents[1], timeout=120, check=True)
