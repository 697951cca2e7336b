from __future__ import annotations

from graphut.experiments.results.difficulty import (
    difficulty_chart,
    difficulty_table,
    lengths_chart,
    nesting_table,
    operator_table,
)
from tests.experiments.results.tiny import PAIRS, cells, make_record, row


def test_difficulty_table_by_supporting_facts() -> None:
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


def test_difficulty_table_joins_single_tasks() -> None:
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


def test_difficulty_table_by_surprisal_and_by_attractors() -> None:
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


def test_difficulty_table_by_length() -> None:
    rows = [
        {"from": 1, "to": 3, **PAIRS, "decoder_steps": 1.5},
        {"from": 4, "to": 8, **PAIRS, "decoder_steps": 2.5},
    ]
    judged = {**PAIRS, "by_source_length": rows}
    runs = [make_record("algorithmic-copy", "small", up_to_400=judged)]
    found = row(difficulty_table(runs), "copy, decoder")
    assert (found["from easy to hard"], found["mean steps"]) == ("2, 6", "1.50, 2.50")


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


def by_nesting(*accuracies: float) -> list[dict[str, float]]:
    return [
        {**PAIRS, "from": n, "to": n, "examples": 4, "sequence_accuracy": accuracy}
        for n, accuracy in enumerate(accuracies, 1)
    ]


def test_nesting_table_has_means_of_seeds_by_nesting() -> None:
    data = {"data": "DATA/listops"}
    runs = [
        make_record(
            "listops", options=data, seed=seed, official_d20s={"by_nesting": by_nesting(*own)}
        )
        for seed, own in enumerate([(1.0, 0.5), (1.0, 0.25, 0.125)])
    ]
    runs.append(make_record("listops", "fixed", data, test=PAIRS))  # judged by an older version
    assert cells(nesting_table(runs)) == [
        ["model", "test set", "1", "2", "3"],
        ["small", "official-d20s", "1.000", ".375", ".125"],
    ]


def test_nesting_table_counts_a_digit_alone_as_a_list() -> None:
    rows = [{**PAIRS, "from": 0, "to": 1, "examples": 4, "sequence_accuracy": 0.25}]
    run = make_record("listops", options={"data": "DATA/x"}, official_d20s={"by_nesting": rows})
    assert cells(nesting_table([run]))[0] == ["model", "test set", "1"]


def test_operator_table_has_a_column_for_each_operator() -> None:
    rows = [{**PAIRS, "operator": name, "examples": 4} for name in ("[MAX", "[SM")]
    run = make_record("listops", options={"data": "DATA/x"}, test={**PAIRS, "by_operator": rows})
    assert cells(operator_table([run])) == [
        ["model", "test set", "[MAX", "[SM"],
        ["small", "test", ".500 at 1.00, 2.00", ".500 at 1.00, 2.00"],
    ]
