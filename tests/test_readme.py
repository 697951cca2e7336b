"""The README's Python is run, and its figures are those of the records."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from graphut.experiments.cli import main
from tests.experiments.cli.tiny import TINY

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
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


def test_readme_shows_the_figures_of_distances_in_trees() -> None:
    runs = [record(f"graph-distance-small-seed{seed}")["evaluations"] for seed in range(3)]
    assert agree(figures("is a node an odd"), *(100 * run["near-1000"]["accuracy"] for run in runs))
    families = "test_sizes-1000-test_families-near_uniform_recursive_balanced_caterpillar_path"
    for seed in range(3):
        found = record(f"graph-distance-{families}-small-seed{seed}")["evaluations"]
        assert len(found) == 7 and {judged["accuracy"] for judged in found.values()} == {1.0}


def test_readme_shows_the_figures_of_sort() -> None:
    runs = [record(f"sort-small-seed{seed}")["evaluations"]["test"] for seed in range(3)]
    assert agree(figures("sort"), *(100 * run["sequence_accuracy"] for run in runs))


def test_readme_shows_the_figures_of_addition() -> None:
    runs = [record(f"algorithmic-addition-small-seed{seed}") for seed in (0, 1, 2)]
    found = [100 * run["evaluations"]["exactly-400"]["sequence_accuracy"] for run in runs]
    assert agree(figures("addition"), *found)


def test_readme_shows_the_figures_of_multi30k() -> None:
    runs = [record(f"multi30k-precision-bfloat16-small-seed{seed}") for seed in range(3)]
    assert agree(figures("Multi30k"), *(run["evaluations"]["test"]["bleu"] for run in runs))


def test_readme_shows_the_range_of_the_attention_benchmarks() -> None:
    found = times_faster("attention", (128, 512), "dgl")
    assert agree(figures("attention"), min(found), max(found))
    found = times_faster("attention", (128, 512), "padded")
    assert f"than dense attention with padding {min(found):.1f} to {max(found):.1f} |" in README
    found = times_faster("attention-avx2", (128,), "dgl")
    assert f"128 features: {min(found):.1f} to {max(found):.1f})" in README


def times_faster(kind: str, dims: tuple[int, ...], peer: str) -> list[float]:
    workloads = ("complete-64x10-60", "causal-64x10-60", "complete-8x400", "causal-8x400")
    ratios = []
    for workload in (*workloads, "window-4096", "bigbird-4096"):
        for dim in dims:
            measured = record(f"bench/{kind}-{workload}-{dim}")["rows"]
            [native] = [row for row in measured if row["name"] == "native"]
            ratios.append(native["times_faster_than"][peer])
    return ratios


def test_readme_shows_the_range_of_the_model_benchmark() -> None:
    rows = [row for row in record("bench/model")["rows"] if row["pass"] == "forward+backward"]
    assert len(rows) == 8
    ratios = [row["speed_up"] for row in rows]
    assert agree(figures("adaptive"), min(ratios), max(ratios))
    low, high = sorted(
        row["speed_up"]
        for row in record("bench/model-nobody-halts")["rows"]
        if (row["pass"], row["halting"]) == ("forward+backward", "nobody")
    )
    assert f"where no node halts, two shapes: {low:.2f} and {high:.2f})" in README


def test_readme_shows_the_ranges_of_the_layer_benchmarks() -> None:
    pairs = [
        ("DotGATConv", "dgl DotGatConv"),
        ("DotGATConv", "dgl GATConv"),
        ("TransformerConv", "pyg TransformerConv"),
    ]
    ends = []
    for ours, peer in pairs:
        found = [
            row["times_faster_than"][peer]
            for graph in ("blocks", "large", "power")
            for row in record(f"bench/layers-{graph}")["rows"]
            if row["name"] == ours
        ]
        ends += [min(found), max(found)]
    assert agree(figures("one layer"), *ends)
    four_maps = [
        row["times_faster_than"][peer]
        for row in record("bench/layers-blocks")["rows"]
        if row["name"] in ("DotGATConv, own maps", "MultiHeadAttention", "TransformerConv")
        for peer in ("dgl DotGatConv", "dgl GATConv")
    ]
    slowest, fastest = (f"{end:.2f}".removeprefix("0") for end in (min(four_maps), max(four_maps)))
    assert f"its speed as a share of theirs | {slowest} to {fastest} |" in README


def test_readme_shows_plain_transformers() -> None:
    names = ("transformer-seed0", *(f"precision-float32-transformer-seed{seed}" for seed in (1, 2)))
    runs = [record(f"algorithmic-addition-{name}")["evaluations"]["exactly-400"] for name in names]
    shown = ", ".join(f"{100 * run['sequence_accuracy']:.1f}%" for run in runs)
    assert f"three seeds: {shown};" in README
    names = [f"multi30k-precision-bfloat16-untied-seed{seed}" for seed in range(3)]
    found = [record(name)["evaluations"]["test"]["bleu"] for name in names]
    assert f"three seeds: {', '.join(f'{bleu:.1f}' for bleu in found)})" in README


def figures(title: str) -> str:
    """Return the cell with the figures in the row of a table that begins with `title`."""
    [row] = re.findall(rf"^\| {title}[^|]* \| ([^|]*) \|", README, re.MULTILINE)
    return str(row)


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / f"examples/results/{name}.json").read_text())
    return found


def agree(shown: str, *numbers: float) -> bool:
    """Return whether figures are these numbers, each rounded to as many places as it has."""
    found = re.findall(r"[\d.]*\d", shown)
    return len(found) == len(numbers) and all(
        abs(float(figure) - number) <= 0.501 * 10.0 ** -len(figure.partition(".")[2])
        for figure, number in zip(found, numbers, strict=True)
    )
