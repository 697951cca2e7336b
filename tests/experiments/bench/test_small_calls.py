from __future__ import annotations

import pytest

from graphut.experiments.bench import small_calls
from graphut.experiments.bench.small_calls import bench_small_calls


def test_bench_small_calls_compares_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_calls, "SHAPES", ((2, 3, 8, 2),))
    rows = bench_small_calls(repeats=1)
    assert [row["contender"] for row in rows] == ["plain torch", "adaptive"] * 2
    assert all(row["ms"] > 0 for row in rows)


def test_bench_small_calls_has_no_figures_of_results_that_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(small_calls, "SHAPES", ((2, 3, 8, 2),))
    monkeypatch.setattr(small_calls, "largest_error", lambda *_: 0.5)
    assert {row["note"] for row in bench_small_calls()} == {"adaptive is wrong by 5e-01"}
