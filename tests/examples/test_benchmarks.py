"""Each benchmark runs at a small size, and finds its contenders equal."""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from graphut.experiments.cli import main
from tests.experiments.training.together import run_together
from tests.helpers import read_rows

FOLDER = Path(__file__).parents[2] / "examples" / "benchmarks"
Run = Callable[..., list[dict[str, str]]]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A function that runs a benchmark as a program, and returns the rows that it saves."""

    def run(name: str, *argv: str) -> list[dict[str, str]]:
        program, results = str(FOLDER / f"{name}.py"), tmp_path / "bench.csv"
        given = [program, "--repeats", "1", "--results", str(results), *argv]
        monkeypatch.setattr(sys, "argv", given)
        monkeypatch.syspath_prepend(FOLDER)
        runpy.run_path(program, run_name="__main__")
        rows = read_rows(results)
        assert {row["bench"] for row in rows} == {name} and rows[0]["command"].startswith(program)
        return rows

    return run


SMALL = ("--shape", "4x2-5", "--dim", "16", "--topology")


def test_attention_compares_contenders_and_topologies(bench: Run) -> None:
    pytest.importorskip("torch_geometric")
    rows = bench("attention", *SMALL, "causal", "window:1", "--active", ".5")
    names = ["dgl", "torch", "native", "pyg", "padded"]
    found = [row["contender"] for row in rows if row["workload"].startswith("causal, 4x2-5, 16 ")]
    assert [name for name in found if name != "triton"] == names
    for row in rows:
        assert 0.0 < float(row["error"]) < 1e-5 and float(row["ns_per_edge"]) > 0.0
    assert len(rows) in (10, 12)  # with Triton


@pytest.mark.parametrize("name", ["model", "layers"])
def test_contenders_are_equal(name: str, bench: Run) -> None:
    options = {
        "model": (*SMALL, "complete", "window:2"),
        "layers": ("--nodes", "40", "--edges", "200", "--seeds", "5", "--dim", "16"),
    }
    rows = bench(name, *options[name])
    assert max(float(row["error"]) for row in rows) < 1e-5
    assert (
        all(float(row["ms"]) > 0 for row in rows) and len(rows) == {"model": 8, "layers": 5}[name]
    )


def test_waking(bench: Run, tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    tiny = ["--epochs", "1", "--epoch-size", "32", "--held-out", "4", "--test-sizes", ""]
    assert main(["train", "graph-distance", "--preset", "waking", "--out", folder, *tiny]) == 0
    rows = bench("waking", "--run", folder, "--nodes", "16", "--families", "grid", "path")
    assert [row["contender"] for row in rows[:2]] == [
        "every node in every round",
        "nodes that wake",
    ]
    assert len(rows) == 4 and 0.0 <= float(rows[3]["error"]) <= 1.0 and float(rows[3]["value"]) > 0


def test_generation(bench: Run) -> None:
    pytest.importorskip("transformers")
    rows = bench("generation", "--sentences", "2", "--beams", "2", "--dim", "16")
    assert [row["contender"] for row in rows] == ["Marian", "adaptive", "fixed depth"]
    assert all(float(row["value"]) > 0 for row in rows)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_gpu_compares_models_and_needs_a_device(
    bench: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not torch.cuda.is_available():
        with pytest.raises(SystemExit, match="there is no CUDA device"):
            bench("gpu")
    monkeypatch.syspath_prepend(FOLDER)
    script: dict[str, Any] = runpy.run_path(str(FOLDER / "gpu.py"))
    rows = script["bench_recurrence"]("4x2-5", 16, -1.0, 1, "cpu")
    rows += script["bench_waking"](4, 16, 1, "cpu")
    assert len(rows) == 6 and all(row["ms"] > 0 for row in rows) and rows[4]["error"] < 1e-5


def test_parts_compares_and_counts_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)  # a fork would wait for them
    monkeypatch.syspath_prepend(FOLDER)
    script: dict[str, Any] = runpy.run_path(str(FOLDER / "parts.py"))

    def check() -> None:
        rows = script["bench_parts"]("grid", 60, dim=4, heads=2, repeats=1)
        sent = [row["value"] for row in rows[2:]]
        assert len(sent) == 8 and sent == sorted(sent, reverse=True) and sent[0] > sent[-1]

    run_together(check, tmp_path)
