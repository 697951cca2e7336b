from __future__ import annotations

import pytest
from torch import Tensor

from graphut.experiments.bench.attention_workload import AttentionWorkload
from graphut.experiments.bench.driver import Row
from graphut.experiments.bench.topologies import bench_topologies


def small(*specs: str) -> list[Row]:
    return bench_topologies(specs, nodes=9, dim=8, heads=2, repeats=1)


def test_bench_topologies_compares_the_time_of_an_edge_with_the_first() -> None:
    rows = small("window:1", "complete")
    assert [row["contender"] for row in rows] == ["window:1", "complete"]
    for row, edges in zip(rows, (25, 81), strict=True):
        assert row["error"] < 1e-5
        assert row["ns_per_edge"] == pytest.approx(1e6 * row["ms"] / edges)
        assert row["edge_ratio"] == row["ns_per_edge"] / rows[0]["ns_per_edge"]


def test_bench_topologies_has_no_figures_of_a_wrong_result(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = AttentionWorkload.reference

    def wrong(workload: AttentionWorkload) -> list[Tensor]:
        factor = 1.03 if workload.spec == "window:1" else 1
        return [factor * result for result in reference(workload)]

    monkeypatch.setattr(AttentionWorkload, "reference", wrong)
    first, second = small("window:1", "complete")
    assert first["note"] == "wrong by 3e-02" and "ms" not in first
    assert second["ns_per_edge"] > 0 and "edge_ratio" not in second
