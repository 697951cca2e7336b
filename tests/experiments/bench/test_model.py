from typing import Any

import pytest
import torch

from graphut.experiments.bench import model
from graphut.experiments.bench.model import COMPILED, bench_model, bench_small_calls
from tests.experiments.bench.cases import SPECS

TINY: dict[str, Any] = {"shape": "4x3-9", "dim": 16, "heads": 2, "repeats": 1}


@pytest.mark.parametrize("spec", SPECS)
def test_bench_model_compares_results(spec: str) -> None:
    rows = bench_model(spec, **TINY)
    workload = f"{spec}, 4x3-9, 16 features, schedule, forward"
    assert [(row["workload"], row["contender"]) for row in rows] == [
        (f"{workload}{backward}", name)
        for backward in ("", "+backward")
        for name in ("dense", "adaptive")
    ]
    for dense, adaptive in (rows[:2], rows[2:]):
        assert dense["ms"] > 0 and dense["relative_flops"] == 1
        assert adaptive["error"] < 1e-5 and 0 < adaptive["relative_flops"] < 1


def test_bench_model_compares_a_compiled_model_and_autocast() -> None:
    rows = bench_model("causal", **TINY, compiler="eager", bfloat16=True)
    names = ["dense", COMPILED, "adaptive", f"{COMPILED}, bfloat16", "adaptive, bfloat16"]
    assert [row["contender"] for row in rows] == names * 2
    for dense, compiled, adaptive, *narrow in (rows[:5], rows[5:]):
        assert max(compiled["error"], adaptive["error"]) < 1e-5
        assert all(1e-4 < row["error"] < 2e-2 and row["ms"] > 0 for row in narrow)
        assert compiled["relative_flops"] == dense["relative_flops"] == 1
        assert narrow[1]["relative_flops"] == adaptive["relative_flops"] < 1


def test_bench_model_counts_the_operations() -> None:
    full = bench_model("complete", **{**TINY, "shape": "2x5"}, halting=False)[1]
    assert full["relative_flops"] == 1  # no padding, no halting, and every edge exists
    padded = bench_model("complete", **TINY, halting=False)[1]
    halting = bench_model("complete", **TINY)[1]
    assert halting["relative_flops"] < padded["relative_flops"] < 1


def test_bench_model_has_no_figures_of_models_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    real = model.PaddedModel.forward

    def wrong(self: model.PaddedModel, x: torch.Tensor, depth: torch.Tensor) -> torch.Tensor:
        return 1.03 * real(self, x, depth)

    monkeypatch.setattr(model.PaddedModel, "forward", wrong)
    for row in bench_model("causal", **TINY):
        assert row["note"] == "adaptive is wrong by 3e-02" and "ms" not in row


def test_bench_small_calls_compares_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "SMALL_SHAPES", ((2, 3, 8, 2),))
    rows = bench_small_calls(repeats=1)
    assert [row["contender"] for row in rows] == ["plain torch", "adaptive"] * 2
    assert all(row["ms"] > 0 for row in rows)


def test_bench_small_calls_has_no_figures_of_results_that_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model, "SMALL_SHAPES", ((2, 3, 8, 2),))
    monkeypatch.setattr(model, "largest_error", lambda *_: 0.5)
    assert {row["note"] for row in bench_small_calls()} == {"adaptive is wrong by 5e-01"}


@pytest.mark.gpu
def test_bench_model_on_a_gpu() -> None:
    rows = bench_model("causal", **TINY, device=torch.device("cuda"))
    assert all(row["ms"] > 0 and row["peak_mib"] is not None for row in rows)
