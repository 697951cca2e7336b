"""The README's Python runs, and its figures agree with the tables of results."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from statistics import fmean

import pytest

from graphut.experiments.cli import main
from tests.experiments.cli.tiny import TINY

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RUNS, BENCH = (
    [*csv.DictReader(io.StringIO((ROOT / "examples" / "results" / name).read_text()))]
    for name in ("runs.csv", "bench.csv")
)
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("code", PYTHON, ids=range(len(PYTHON)))
def test_python_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if "runs/sort" in code:
        assert main(["train", "sort", "--out", "runs/sort", *TINY]) == 0
    exec(compile(code, "README.md", "exec"), {})


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_readme_links_to_files_that_exist() -> None:
    paths = re.findall(r"\]\(([^):]+)\)", README)
    assert len(paths) > 5 and [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    ("title", "task"),
    [("distance parity", "graph-distance"), ("is a marked node reachable", "graph-reach")],
)
def test_readme_shows_the_figures_of_nodes_that_wake(title: str, task: str) -> None:
    rows = [row for row in RUNS if (row["task"], row["preset"]) == (task, "waking")]
    large = [row for row in rows if row["set"].endswith(("-1000", "-10000"))]
    found = {seed: [row for row in large if row["seed"] == seed] for seed in "012"}
    accuracies = [fmean(100 * float(row["accuracy"]) for row in own) for own in found.values()]
    assert [len(own) for own in found.values()] == [12] * 3 and accuracies == [100.0] * 3
    assert agree(figures(title), *accuracies)
    graphs = [int(row["examples"]) for row in found["0"] if row["set"].endswith("-1000")]
    assert sum(graphs) == 120 and max(float(row["steps"]) for row in large) <= 5


@pytest.mark.parametrize(
    ("title", "task", "test_set", "metric"),
    [
        ("sort", "sort", "test", "sequence_accuracy"),
        ("addition", "algorithmic-addition", "exactly-400", "sequence_accuracy"),
        ("Multi30k", "multi30k", "test", "bleu"),
    ],
)
def test_readme_shows_the_figures_of_tasks(
    title: str, task: str, test_set: str, metric: str
) -> None:
    scale = 1 if metric == "bleu" else 100
    assert agree(figures(title), *(scale * x for x in seeds(task, "small", test_set, metric)))


def test_readme_shows_plain_transformers() -> None:
    found = seeds("algorithmic-addition", "transformer", "exactly-400", "sequence_accuracy")
    assert f"three seeds: {', '.join(f'{100 * x:.1f}%' for x in found)};" in README
    found = seeds("multi30k", "untied", "test", "bleu")
    assert f"three seeds: {', '.join(f'{bleu:.1f}' for bleu in found)})" in README


def test_readme_shows_the_range_of_the_attention_benchmarks() -> None:
    full = r"features$"
    found = times("attention", "native", "dgl", full, "AVX512")
    assert len(found) == 16 and agree(figures("attention"), min(found), max(found))
    found = times("attention", "native", "padded", full, "AVX512")
    assert f"than dense attention with padding {min(found):.1f} to {max(found):.1f} |" in README
    found = times("attention", "native", "dgl", full, "AVX2")
    assert len(found) == 6 and f"128 features: {min(found):.1f} to {max(found):.1f})" in README


def test_readme_shows_the_range_of_the_model_benchmark() -> None:
    found = times("model", "adaptive", "dense", r"schedule, forward\+backward", command="--dim 512")
    assert len(found) == 8 and agree(figures("adaptive"), min(found), max(found))
    low, high = sorted(times("model", "adaptive", "dense", r"no halting, forward\+backward"))
    assert f"where no node halts, two shapes: {low:.2f} and {high:.2f})" in README


def test_readme_shows_the_ranges_of_the_layer_benchmarks() -> None:
    pairs = [
        ("DotGATConv", "dgl DotGatConv"),
        ("DotGATConv", "dgl GATConv"),
        ("TransformerConv", "pyg TransformerConv"),
    ]
    found = [times("layers", *pair) for pair in pairs]
    assert all(len(own) == 3 for own in found)
    assert agree(figures("one layer"), *(end for own in found for end in (min(own), max(own))))
    four_maps = [
        ratio
        for ours in ("DotGATConv, own maps", "MultiHeadAttention", "TransformerConv")
        for peer in ("dgl DotGatConv", "dgl GATConv")
        for ratio in times("layers", ours, peer, "blocks")
    ]
    slowest, fastest = (f"{end:.2f}".removeprefix("0") for end in (min(four_maps), max(four_maps)))
    assert f"its speed as a share of theirs | {slowest} to {fastest} |" in README


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
