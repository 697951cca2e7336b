"""The steps of `.github/CONTRIBUTING.md` are followed, for toys of each kind."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from graphut.attention import edge_attention
from graphut.attention.registry import BACKENDS
from graphut.experiments.cli import main
from graphut.experiments.tasks import TASKS
from graphut.nn import Global, parse_rule
from graphut.nn.rules.base import RULES
from graphut.topology import Causal, parse
from graphut.topology.registry import registry
from tests.helpers import assert_same, normal
from tests.nn.cases import MODES, build_case, engine
from tests.nn.reference import dense_recurrence

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / ".github" / "CONTRIBUTING.md").read_text()


def toy(heading: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a module with the Python code under a heading of the page."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    [code] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    module = ModuleType("toy")
    monkeypatch.setitem(sys.modules, "toy", module)
    exec(compile(code, "CONTRIBUTING.md", "exec"), module.__dict__)
    return module


def test_contributing_and_ci_name_files_that_exist() -> None:
    paths = re.findall(r"`((?:graphut|tests|examples)/[\w./]+)`", PAGE)
    paths += (named := re.findall(r"\btests/[\w./]+", (ROOT / ".ci/run").read_text()))
    assert len(paths) > 10 and len(named) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_contributing_adds_a_topology(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "every_other"
    try:
        toy("Add a topology", monkeypatch)
        topology = parse(f"{name}&causal")
        i, j = torch.meshgrid(torch.arange(5), torch.arange(5), indexing="ij")
        expected = ((i - j) % 2 == 0) & (j <= i)
        assert torch.equal(topology.mask(5), expected)
        assert topology.graph([5]).num_edges() == int(expected.sum())
        assert str(topology) == f"{name}&causal" and topology.stable
    finally:
        registry.pop(name, None)


def test_contributing_adds_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = toy("Add a backend of attention", monkeypatch).ORACLE64
    monkeypatch.setitem(BACKENDS, backend.name, backend)
    layout, rows = Causal().layout([3, 2]), normal(5, 2, 4)
    found = edge_attention(layout, rows, rows, rows, backend=backend.name)
    assert_same([found], [edge_attention(layout, rows, rows, rows, backend="torch")])


@pytest.mark.parametrize("halted", MODES["halted"])
def test_contributing_adds_a_way_of_halting(halted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "twice_sure"
    try:
        toy("Add a way of halting", monkeypatch)
        own = parse_rule(f"{name}:threshold=0.3")
        for rule in (own, Global(own)):
            case = build_case(rule=rule, halted=halted)
            found = case.run(engine)
            assert_same(found, case.run(dense_recurrence))
            assert found[1].min() >= 2 and (rule != own or len(found[1].unique()) > 1)
    finally:
        RULES.pop(name, None)


def test_contributing_adds_a_task(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task: Any = toy("Add a task", monkeypatch).Doubling
    assert task().train(0, 0)[0][1] == [t for t in task().train(0, 0)[0][0] for _ in range(2)]
    monkeypatch.setitem(TASKS, task.name, task)
    run = str(tmp_path / "run")
    sizes = ["--size", "8", "--epochs", "1", "--batch-size", "8", "--max-steps", "2"]
    assert main(["train", task.name, "--out", run, *sizes, "--device", "cpu"]) == 0
    assert main(["eval", run]) == 0
    assert main(["generate", run, "a b"]) == 0
    assert "output" in capsys.readouterr().out


def test_contributing_keeps_tests_beside_their_modules() -> None:
    """The tests of `graphut/a/b.py` are in `tests/a/test_b.py`, or in `test_b_*.py`."""
    modules = {
        path.relative_to(ROOT / "graphut")
        for path in (ROOT / "graphut").rglob("*.py")
        if "__pycache__" not in path.parts
    }
    files = {path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")}
    expected = {module.with_name(f"test_{module.stem.strip('_')}.py") for module in modules}
    packages = {module.parent for module in modules if module.parent.name}
    expected |= {package.with_name(f"test_{package.name}.py") for package in packages}
    pages = {Path(f"test_{name}.py") for name in ("readme", "contributing", "docs")}
    pages.add(Path("test_compile_kernels.py"))
    parted = {
        path
        for path in files
        for test in expected
        if path.parent == test.parent and path.stem.startswith(f"{test.stem}_")
    }
    others = files - expected - parted - pages
    assert sorted(path for path in others if path.parts[0] != "examples") == []


def test_integrations_are_named_with_tests_that_exist() -> None:
    page = (ROOT / ".github" / "INTEGRATIONS.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    code = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 20
    assert [name for name in sorted(named) if f"def {name}(" not in code] == []
    rows = [line for line in page.splitlines() if line.startswith("| ") and "---" not in line]
    assert [row for row in rows if "`test_" not in row and " | how" not in row] == []
