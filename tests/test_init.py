import subprocess
import sys
from pathlib import Path


def test_importing_the_layers_loads_few_modules_and_no_dgl() -> None:
    """Code that imports graphut's layers first can still import dgl after them, on any torch."""
    code = """
import importlib.util, sys, torch
before = {*sys.modules}
import graphut.nn
loaded = {*sys.modules} - before
assert "dgl" not in loaded and len(loaded) <= 150, sorted(loaded)
if importlib.util.find_spec("dgl"):
    import dgl
    dgl.graph(([0], [1]))
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_library_loads_no_experiments() -> None:
    code = """
import graphut, graphut.nn, graphut.models, graphut.plotting, sys
assert not [name for name in sys.modules if name.startswith("graphut.experiments")]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_graphut_is_found_from_the_folder_beside_the_checkout(tmp_path: Path) -> None:
    """There Python also sees the checkout itself, a folder of the same name."""
    (tmp_path / "graphut").symlink_to(Path(__file__).parents[1], target_is_directory=True)
    code = "from graphut import edge_attention"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
