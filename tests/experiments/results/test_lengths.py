from __future__ import annotations

from graphut.experiments.results.lengths import lengths_chart
from tests.experiments.results.tiny import PAIRS, make_record

LENGTHS = [
    {"from": 1, "to": 3, "examples": 2, **PAIRS, "decoder_steps": 1.5},
    {"from": 4, "to": 8, "examples": 2, **PAIRS, "decoder_steps": 2.5, "token_accuracy": 0.25},
]


def test_lengths_chart_has_curves_by_length() -> None:
    judged = {**PAIRS, "by_source_length": LENGTHS}
    runs = [
        make_record("algorithmic-copy", preset, up_to_400=judged) for preset in ("small", "fixed")
    ]
    right, sequences, _, steps = lengths_chart(runs).panels
    assert [series.label for series in right.series] == ["small", "fixed"]
    assert right.series[0].points == [(2.0, 0.5), (6.0, 0.25)]
    assert sequences.series[0].points == [(2.0, 0.5), (6.0, 0.5)]
    assert steps.series[1].points == [(2.0, 1.5), (6.0, 2.5)]
    assert lengths_chart([make_record("algorithmic-copy", test=PAIRS)]).panels == []
