"""The code and the commands of the README run, and its figures agree with the tables of results."""

import re
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.helpers import read_rows
from tests.shell import CODE, put_files, run_block

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RESULTS = ROOT / "examples" / "results"
RUNS, BENCH = read_rows(RESULTS / "runs.csv"), read_rows(RESULTS / "bench.csv")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    names: dict[str, Any] = {}  # the page is read from top to bottom
    for code in PYTHON:
        if "import dgl" in code and find_spec("dgl") is None:
            code = code.partition("import dgl")[0]
        exec(compile(code, "README.md", "exec"), names)
    assert names["conv"].ponder.steps.shape == (100,)


def test_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the commands to try, with little training."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    put_files(README, monkeypatch)
    for kind, code, in_text in CODE.findall(README):
        if in_text or (kind == "sh" and "pip install" not in code):
            run_block(code or in_text, monkeypatch)
    assert Path("t.png").exists() and Path("report.html").exists()


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_readme_links_to_files_that_exist() -> None:
    paths = re.findall(r"\]\(([^):]+)\)", README)
    assert len(paths) > 5 and [path for path in paths if not (ROOT / path).exists()] == []


def test_readme_shows_the_figures_of_nodes_that_wake() -> None:
    rows = [row for row in RUNS if (row["task"], row["preset"]) == ("graph-distance", "waking")]
    large = [row for row in rows if row["set"].endswith(("-1000", "-10000"))]
    found = {seed: [row for row in large if row["seed"] == seed] for seed in "012"}
    accuracies = [fmean(100 * float(row["accuracy"]) for row in own) for own in found.values()]
    assert [len(own) for own in found.values()] == [12] * 3 and accuracies == [100.0] * 3
    assert agree(figures("distance parity"), *accuracies)
    graphs = [int(row["examples"]) for row in found["0"] if row["set"].endswith("-1000")]
    assert sum(graphs) == 120 and max(float(row["steps"]) for row in large) < 5.5  # about five


def test_readme_shows_the_figures_of_sorting() -> None:
    found = seeds("sort", "small", "test", "sequence_accuracy")
    assert agree(figures("sort"), *(100 * accuracy for accuracy in found))


def test_readme_shows_the_figures_of_shortest_paths() -> None:
    rows = [r for r in RUNS if (r["task"], r["preset"]) == ("graph-dijkstra", "registers")]
    assert len(rows) == 48 and {float(row["graph_accuracy"]) for row in rows} == {1.0}
    assert agree(figures("shortest paths"), 100.0, 100.0, 100.0)


def test_readme_shows_the_range_of_the_attention_benchmarks() -> None:
    full = r"features$"
    found = times("attention", "native", "dgl", full, "AVX512")
    assert len(found) == 16 and agree(figures("attention"), min(found), max(found))


def test_readme_shows_the_range_of_the_model_benchmark() -> None:
    found = times("model", "adaptive", "dense", r"schedule, forward\+backward", command="--dim 512")
    assert len(found) == 8 and agree(figures("adaptive"), min(found), max(found))


def seeds(task: str, preset: str, test_set: str, metric: str) -> list[float]:
    """Return a metric of the runs of a preset with no other options but data and precision."""
    plain = r"(--data \S+ ?)?(--precision \S+)?"
    return [
        float(row[metric])
        for row in RUNS
        if (row["task"], row["preset"], row["set"]) == (task, preset, test_set)
        and re.fullmatch(plain, row["options"])
    ]


def times(
    bench: str, ours: str, peer: str, workload: str = "", vectors: str = "", command: str = ""
) -> list[float]:
    """Return how many times as fast as a peer a contender is, on each workload."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in BENCH:
        if (
            row["bench"] == bench
            and re.search(workload, row["workload"])
            and vectors in (row["vectors"], "")
            and command in row["command"]
            and row["ms"]
        ):
            key = row["workload"], row["command"]
            found.setdefault(key, {})[row["contender"]] = float(row["ms"])
    return [ms[peer] / ms[ours] for ms in found.values() if peer in ms]


def figures(title: str) -> str:
    """Return the cell with the figures in the row of a table that begins with `title`."""
    [row] = re.findall(rf"^\| {title}[^|]* \| ([^|]*) \|", README, re.MULTILINE)
    return str(row)


def agree(shown: str, *numbers: float) -> bool:
    """Return whether figures are these numbers, each rounded to as many places as it has."""
    found = re.findall(r"[\d.]*\d", shown)
    return len(found) == len(numbers) and all(
        abs(float(figure) - number) <= 0.501 * 10.0 ** -len(figure.partition(".")[2])
        for figure, number in zip(found, numbers, strict=True)
    )
