"""The code and the commands of the site's pages run, and the files that they name exist."""

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
from tests.shell import CODE, put_files, run_block

ROOT = Path(__file__).parents[1]
PAGES = {path.stem: path.read_text() for path in sorted((ROOT / ".docs").glob("*.md"))}


CODED = {name for name, text in PAGES.items() if CODE.search(text)} - {"testing"}  # runs the tests


@pytest.mark.filterwarnings("ignore:Dataloader CPU affinity")  # of DGL, for each loader
@pytest.mark.parametrize("page", sorted(CODED))
def test_docs_code_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    if "import torch_geometric" in PAGES[page] or "from torch_geometric" in PAGES[page]:
        pytest.importorskip("torch_geometric.data")  # its first import warns
    if "Planetoid" in PAGES[page]:
        put_graphs(monkeypatch)
    put_files(PAGES[page], monkeypatch)
    names: dict[str, Any] = {}  # a page is read from top to bottom
    for kind, code, in_text in CODE.findall(PAGES[page]):
        if kind == "sh" or in_text:
            run_block(code or " ".join(in_text.split()), monkeypatch)
        elif "torch_geometric.loader" not in code or find_spec("pyg_lib"):  # not on PyPI
            exec(compile(code, f"{page}.md", "exec"), names)


def put_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a ring of 1,200 nodes in the place of the published graphs that a page reads."""
    from torch_geometric import data, datasets

    node = torch.arange(1200)
    edges = torch.stack([node, node.roll(1)])
    parts = {"train": node < 400, "val": node % 3 == 1, "test": node % 3 == 2}
    masks = {f"{part}_mask": mask for part, mask in parts.items()}
    graph = data.Data(torch.eye(3)[node % 3], edges, y=node % 4, **masks)
    monkeypatch.setattr(datasets, "Planetoid", lambda folder, name: [graph])
    starts, ones = np.arange(1201), np.ones(1200)
    matrices = {"adj": ((node + 1) % 1200, 1200), "attr": (node % 3, 3)}
    arrays = {"labels": node % 4}
    for kind, (columns, width) in matrices.items():
        matrix = {"data": ones, "indices": columns, "indptr": starts, "shape": [1200, width]}
        arrays |= {f"{kind}_matrix.{key}": value for key, value in matrix.items()}
    Path("ppnp/ppnp/data").mkdir(parents=True)
    for name in ("citeseer", "cora_ml"):
        np.savez(f"ppnp/ppnp/data/{name}.npz", **arrays)


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
