from __future__ import annotations

from typing import Any

from graphut.experiments.results.depth import depth_chart, depth_table
from graphut.experiments.results.run_record import RunRecord
from tests.experiments.results.tiny import PAIRS, make_record, row


def work(accuracy: float, flops: float) -> dict[str, Any]:
    return {
        **PAIRS, "sequence_accuracy": accuracy, "flops_per_example": flops, "flops_share": 0.5,
    }  # fmt: skip


def sorts() -> list[RunRecord]:
    return [
        make_record("sort", "fixed", test=work(0.75, 2e6)),
        make_record("sort", "fixed", {"max_steps": 1}, test=work(0.25, 1e6)),
        make_record("sort", "small", test=work(0.875, 1.5e6)),
        make_record("sort", "small", {"ponder_weight": 0.5}, test=work(0.5, 1.25e6)),
        make_record("sort", "transformer", test=work(1.0, 9e6)),
        make_record("sort", "fixed", {"max_steps": 1, "epochs": 1}, test=work(0.125, 1e6)),
    ]


def test_depth_table_has_fixed_and_adaptive_depths() -> None:
    table = depth_table(sorts())
    assert row(table, "sort", "fixed --max-steps 1")["value"] == ".250"
    assert row(table, "sort", "fixed")["FLOPs"] == "2.00 M"
    assert row(table, "sort", "adaptive")["share of all"] == "50.00%"
    assert row(table, "sort", "adaptive --ponder-weight 0.5")["value"] == ".500"
    assert "transformer" not in table and "--epochs 1" not in table
    assert row(table, "copy", "fixed --max-steps 1")["value"] == "not measured yet"
    command = row(table, "copy", "fixed --max-steps 1")["command"]
    assert command == "`graphut train copy --preset fixed --max-steps 1 --seed 0 --out RUN`"
    assert row(table, "characters", "adaptive")["measure"] == "bits a character"


def test_depth_chart_has_the_same_points() -> None:
    [panel] = depth_chart(sorts()).panels
    fixed, adaptive = panel.series
    assert (panel.title, fixed.points) == ("sort", [(1.0, 0.25), (2.0, 0.75)])
    assert adaptive.points == [(1.25, 0.5), (1.5, 0.875)]
    assert depth_chart([]).panels == []
