"""The README's Python is run, and its figures are those of the records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from graphut.experiments.cli import main
from tests.experiments.cli.tiny import TINY

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
WORKLOADS = [  # as they follow one another
    "complete-64x10-60", "causal-64x10-60", "complete-8x400", "causal-8x400", "window-4096",
    "bigbird-4096",
]  # fmt: skip


@pytest.mark.parametrize("code", PYTHON, ids=range(len(PYTHON)))
def test_python_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if "runs/sort" in code:
        assert main(["train", "sort", "--out", "runs/sort", *TINY]) == 0
    exec(compile(code, "README.md", "exec"), {})


def test_it_learns() -> None:
    for task, seed, *shown in rows("It learns."):
        found = record(f"{task}-small-seed{seed}")["evaluations"]["test"]
        shares = [100 * found[name] for name in ("sequence_accuracy", "token_accuracy")]
        assert agree(shown, *shares, found["encoder_steps"], found["decoder_steps"])


def test_it_goes_on_where_training_ended() -> None:
    for task, *shown, _ in rows("It goes on"):
        found = record(f"algorithmic-{task}-small-seed0")["evaluations"]["exactly-400"]
        shares = [100 * found[name] for name in ("token_accuracy", "sequence_accuracy")]
        assert agree(shown, *shares)


def test_it_translates() -> None:
    said = README.split("**It translates.**", 1)[1].split("DGL's own", 1)[0]
    shown = re.findall(r"(?:after|core:|at|and) (\d[\d.]*)", said)
    run = record("multi30k-small-seed0")
    found = [
        run["evaluations"]["test"][name] for name in ("bleu", "encoder_steps", "decoder_steps")
    ]
    assert agree(shown, run["seconds"] / 60, *found)


def test_it_saves() -> None:
    measured = [row for row in record("bench/model")["rows"] if row["pass"] == "forward+backward"]
    by_name = {f"{row['topology']}-{row['sizes']}-{row['dim']}": row for row in measured}
    order = [f"{name}-{dim}" for dim in (128, 512) for name in WORKLOADS]
    names = [name for name in order if name in by_name]
    assert len(names) == len(measured)
    for name, (_, _, *shown) in zip(names, rows("It saves."), strict=True):
        found = by_name[name]
        times = [1000 * found[name]["median"] for name in ("dense_seconds", "adaptive_seconds")]
        ratios = [found[name] for name in ("speed_up", "bound_by_flops", "memory_ratio")]
        assert agree(shown, *times, *ratios), name


def test_it_is_fast() -> None:
    for name, (_, *cells) in zip(WORKLOADS, rows("It is fast."), strict=True):
        for place, dim in enumerate((128, 512)):
            measured = record(f"bench/attention-{name}-{dim}")["rows"]
            [found] = [row for row in measured if row["name"] == "native"]
            ratios = [found["times_faster_than"][other] for other in ("dgl", "pyg", "padded")]
            shown = [cell.split(", ")[place] for cell in cells]
            share = 100 * found["share_of_matmul"]
            assert agree(shown, 1000 * found["seconds"]["median"], *ratios, share), name


def rows(title: str) -> list[list[str]]:
    """The cells of the first table under a title."""
    under = README.split(f"**{title}", 1)[1].split("\n|", 1)[1].split("\n\n", 1)[0]
    lines = under.splitlines()[2:]
    assert lines
    return [re.split(r"\s*\|\s*", line.strip("| ")) for line in lines]


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / f"examples/results/{name}.json").read_text())
    return found


def agree(cells: Iterable[str], *numbers: float) -> bool:
    """Whether figures are these numbers, each rounded to as many places as it has."""
    figures = re.findall(r"[\d.]*\d", " ".join(cells))
    return len(figures) == len(numbers) and all(
        abs(float(figure) - number) <= 0.501 * 10.0 ** -len(figure.partition(".")[2])
        for figure, number in zip(figures, numbers, strict=True)
    )
