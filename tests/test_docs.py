"""The pages of the site: their Python runs, and what they name is there; `.ci/run` builds them."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphut import topology
from graphut.experiments.cli import COMMANDS
from graphut.topology.registry import registry

ROOT = Path(__file__).parents[1]
PAGES = {path.stem: path.read_text() for path in sorted((ROOT / ".docs").glob("*.md"))}


CODE = re.compile(r"```(?:python|\{code-cell\} python)\n(.*?)```", re.DOTALL)


@pytest.mark.filterwarnings("ignore:Dataloader CPU affinity")  # of DGL, for each loader
@pytest.mark.parametrize("page", [name for name, text in PAGES.items() if CODE.search(text)])
def test_docs_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    if "import torch_geometric" in PAGES[page] or "from torch_geometric" in PAGES[page]:
        pytest.importorskip("torch_geometric.data")  # its first import warns
    if "Planetoid" in PAGES[page]:
        put_graphs(monkeypatch)
    names: dict[str, Any] = {}  # a page is read from top to bottom
    for code in CODE.findall(PAGES[page]):
        if "torch_geometric.loader" in code and find_spec("pyg_lib") is None:
            continue  # not on PyPI
        exec(compile(code, f"{page}.md", "exec"), names)


def put_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a graph of two nodes where a page reads published graphs."""
    from torch_geometric import data, datasets

    masks = {f"{part}_mask": torch.tensor([True, False]) for part in ("train", "val", "test")}
    edges, label = torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, 1])
    graph = data.Data(torch.eye(2), edges, y=label, **masks)
    monkeypatch.setattr(datasets, "Planetoid", lambda folder, name: [graph])
    matrix = {"data": [1.0, 1.0], "indices": [1, 0], "indptr": [0, 1, 2], "shape": [2, 2]}
    arrays = {f"{kind}_matrix.{key}": matrix[key] for kind in ("adj", "attr") for key in matrix}
    Path("ppnp/ppnp/data").mkdir(parents=True)
    for name in ("citeseer", "cora_ml"):
        np.savez(f"ppnp/ppnp/data/{name}.npz", labels=label, **arrays)


def test_docs_show_the_help_of_every_command() -> None:
    shown = re.findall(r"\{run\} graphut (\S+) --help", PAGES["command_line"])
    assert sorted(shown) == sorted(COMMANDS)


def test_docs_draw_every_topology() -> None:
    drawn = re.findall(r"\{run\} graphut topology \"?(.*?)\"? --", PAGES["topologies"])
    public = [getattr(topology, name) for name in topology.__all__]
    names = {name for name, make in registry.items() if make in public}
    assert len(names) >= 15 and names - set(re.findall("[a-z_]+", " ".join(drawn))) == set()


def test_docs_name_files_and_tests_that_exist() -> None:
    text = "".join(PAGES.values())
    files = set(re.findall(r"`((?:graphut|tests|examples)/[\w./]+)`", text))
    assert len(files) > 5 and [path for path in sorted(files) if not (ROOT / path).exists()] == []
    code = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    tests = set(re.findall(r"`(test_\w+_\w+)`", text))
    assert len(tests) > 5 and [name for name in sorted(tests) if f"def {name}(" not in code] == []
