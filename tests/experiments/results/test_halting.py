"""Depth against compute, against difficulty, and against length."""

from __future__ import annotations

from typing import Any

from graphut.experiments.results import RunRecord
from graphut.experiments.results.depth import depth_chart, depth_table
from graphut.experiments.results.difficulty import difficulty_chart, difficulty_table
from graphut.experiments.results.lengths import lengths_chart
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


LENGTHS = [
    {"from": 1, "to": 3, "examples": 2, **PAIRS, "decoder_steps": 1.5},
    {"from": 4, "to": 8, "examples": 2, **PAIRS, "decoder_steps": 2.5, "token_accuracy": 0.25},
]


def test_all_fixed_depths_stand_beside_the_adaptive_ones() -> None:
    table = depth_table(sorts())
    assert row(table, "sort", "fixed --max-steps 1")["value"] == ".250"
    assert row(table, "sort", "fixed")["FLOPs"] == "2.00 M"
    assert row(table, "sort", "adaptive")["share of all"] == "50.00%"
    assert row(table, "sort", "adaptive --ponder-weight 0.5")["value"] == ".500"
    assert "transformer" not in table
    assert row(table, "copy", "fixed --max-steps 1")["value"] == "not measured yet"
    command = row(table, "copy", "fixed --max-steps 1")["command"]
    assert command == "`graphut train copy --preset fixed --max-steps 1 --seed 0 --out RUN`"
    assert row(table, "characters", "adaptive")["measure"] == "bits a character"


def test_the_chart_has_the_same_points() -> None:
    [panel] = depth_chart(sorts()).panels
    fixed, adaptive, shorter = panel.series
    assert (panel.title, fixed.points) == ("sort", [(1.0, 0.25), (2.0, 0.75)])
    assert (shorter.label, shorter.points) == ("fixed --epochs 1", [(1.0, 0.125)])
    assert adaptive.points == [(1.25, 0.5), (1.5, 0.875)]
    assert depth_chart([]).panels == []


def test_steps_by_supporting_facts() -> None:
    rows = [{"supporting": n, "steps": n / 2, "question_steps": n + 0.25} for n in (1, 2, 3)]
    options = {"data": "DATA/x", "tasks": "1,2,4-20", "size": "10k", "epochs": 40}
    record = make_record("babi", options=options, test={"by_supporting": rows})
    found = row(difficulty_table([record]), "bAbI, 10k, joint")
    assert (found["from easy to hard"], found["mean steps"]) == ("1, 2, 3", "0.50, 1.00, 1.50")
    assert found["paper"] == "2.30, 3.10, 3.80"
    asked = row(difficulty_table([record]), "bAbI, 10k, joint, the question")
    assert (asked["mean steps"], asked["paper"]) == ("1.25, 2.25, 3.25", "")
    panels = [[series.label for series in p.series] for p in difficulty_chart([record]).panels]
    assert panels == [["measured", "paper"], ["measured"]]


def test_tasks_by_themselves_follow_one_another() -> None:
    runs = [
        make_record(
            "babi",
            options={"data": "DATA/x", "tasks": str(n)},
            test={"by_supporting": [{"supporting": n, "steps": n / 4}]},
        )
        for n in (1, 2, 3)
    ]
    assert row(difficulty_table(runs[:2]), "bAbI, 1k, qa1 to qa3")["mean steps"] == ""
    found = row(difficulty_table(runs), "bAbI, 1k, qa1 to qa3")
    assert (found["from easy to hard"], found["mean steps"]) == ("1, 2, 3", "0.25, 0.50, 0.75")


def test_steps_by_surprisal_and_by_attractors() -> None:
    tenths = [{"from": n / 8, "to": (n + 2) / 8, "tokens": 9, "steps": 1.0 + n} for n in range(3)]
    groups = [{"group": f"{n} attractors", "accuracy": 0.5, "verb_steps": 2.0 * n} for n in (1, 2)]
    runs = [
        make_record("char-lm", options={"data": "DATA/input.txt"}, test={"by_surprisal": tenths}),
        make_record(
            "agreement",
            options={"data": "DATA/x", "sentences": "DATA/y", "split": "small"},
            test={"by_group": groups},
        ),
    ]
    table = difficulty_table(runs)
    assert row(table, "characters")["from easy to hard"] == "0.125, 0.25, 0.375"
    assert row(table, "agreement, before the verb")["mean steps"] == "2.00, 4.00"
    assert row(table, "copy, decoder")["mean steps"] == ""


def test_curves_against_length() -> None:
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
    found = row(difficulty_table(runs), "copy, decoder")
    assert (found["from easy to hard"], found["mean steps"]) == ("2, 6", "1.50, 2.50")
