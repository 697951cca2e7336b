from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from graphut.experiments.results.halting import (
    distances_table,
    families_table,
    family_runs,
    givens_table,
    halting_chart,
    other_runs,
    problems_table,
    runs_by_way,
    sweep_table,
    ways_table,
)
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.tasks.presets import HALTING_WAYS
from tests.experiments.results.tiny import VALIDATION, cells, make_record, row

METRICS = {**VALIDATION["graph-distance"], "examples": 30}


def judged(accuracy: float, *rows: tuple[int, int, float, float]) -> dict[str, Any]:
    """An evaluation, with rows of (from, to, accuracy, steps)."""
    names = ("from", "to", "accuracy", "steps")
    by_depth = [{**dict(zip(names, own, strict=True)), "depth": sum(own[:2]) / 2} for own in rows]
    return {**METRICS, "accuracy": accuracy, "by_depth": by_depth}


def rule_row(rule: str, max_steps: int, accuracy: float, work: float) -> dict[str, Any]:
    own = {"rule": rule, "max_steps": max_steps, "accuracy": accuracy, "work_ratio": work}
    return {**METRICS, **own}


def run_of(way: str, accuracy: float = 0.5, seed: int = 0) -> RunRecord:
    options = dict(HALTING_WAYS[way][1])
    rows = [(0, 1, 1.0, 1.5), (2, 3, accuracy, 3.25)]
    return make_record(
        "graph-distance",
        options.pop("preset", "small"),
        options,
        seed=seed,
        test=judged(1.0),
        near_100=judged(accuracy, *rows),
        near_1000=judged(accuracy, *rows),
    )


SWEEP = [
    rule_row("threshold:threshold=0.5,halt_from=output", 99, 0.5, 0.125),
    rule_row("threshold:threshold=0.9,halt_from=output", 99, 0.75, 0.5),
    rule_row("convergence:tol=0.05", 99, 0.25, 0.5),
    rule_row("fixed", 4, 0.75, 2.0),
    rule_row("fixed", 8, 0.75, 4.0),
    rule_row("fixed", 2, 0.5, 1.0),
]


@pytest.mark.parametrize("way", HALTING_WAYS)
def test_runs_by_way_finds_a_way_by_its_options(way: str) -> None:
    found = runs_by_way([run_of(way), run_of(way, seed=1)])
    assert {name: len(records) for name, records in found.items() if records} == {way: 2}


def test_runs_by_way_leaves_out_other_runs() -> None:
    other = make_record("graph-distance", "small", {"d_model": 8}, **judged_everywhere())
    untested = make_record("graph-distance", test=judged(1.0))
    assert not any(runs_by_way([other, untested]).values())
    shorter = make_record("graph-distance", "small", {"epochs": 3}, **judged_everywhere())
    assert runs_by_way([shorter])["threshold"] == [shorter]
    assert "--epochs 3 --out" in row(ways_table([shorter]), "threshold")["command"]


def judged_everywhere() -> dict[str, Any]:
    return {name: judged(1.0) for name in ("test", "near_100", "near_1000")}


def test_ways_table_has_means_and_deviations_of_seeds() -> None:
    table = ways_table([run_of("act", 0.25), run_of("act", 0.75, seed=3)])
    found = row(table, "act")
    assert found["4-24 nodes"] == "1.000 ± .000" and found["1000 nodes"] == ".500 ± .354"
    assert (found["seeds"], found["minutes"]) == ("0, 3", "1.50")
    assert found["command"].endswith("--ways act --seeds 0 3 --out RUNS`")
    missing = row(table, "gin")
    assert missing["4-24 nodes"] == "not measured yet" and "--ways gin" in missing["command"]


def test_distances_table_has_right_answers_and_steps() -> None:
    table = distances_table([run_of("threshold"), run_of("threshold", 0.75, seed=1)])
    assert cells(table) == [
        ["way", "0 to 1", "2 to 3"],
        ["threshold", "1.000 at 1.50", ".625 at 3.25"],
    ]


def test_sweep_table_has_a_row_for_each_rule() -> None:
    best = replace(run_of("threshold"), sweeps={"near-1000": SWEEP})
    _, *rows = cells(sweep_table([run_of("threshold", 0.75), best]))
    assert len(rows) == len(SWEEP)
    assert rows[2] == ["`convergence:tol=0.05`", "99", ".250", "3.000", ".500"]
    assert cells(sweep_table([run_of("threshold")]))[1:] == []


def test_problems_table_has_the_best_depth_for_all() -> None:
    test = {**METRICS, "accuracy": 0.875, "rank_correlation": None}
    path = make_record("graph-path", options={"epochs": 3}, test=test, near_100=METRICS)
    layers = {"layer": "gat"}
    runs = [
        replace(path, sweeps={"test": SWEEP}),
        make_record("graph-path", "untied", test=test),
        make_record("graph-path", "untied", layers, near_100={**METRICS, "accuracy": 0.625}),
    ]
    assert (other_runs(runs), other_runs(runs, "untied")) == (runs[:1], runs[2:])
    head, test_row, far_row = cells(problems_table(runs))
    assert test_row[:8] == [
        "graph-path", "--epochs 3", "test", "30", ".875", ".250", "3.000", "",
    ]  # fmt: skip
    assert test_row[9:12] == ["4", ".750", "2.000"]  # the smallest of the best
    assert head[9] == "best depth for all" and far_row[9:12] == ["", "", ""]
    assert head[12] == "right with GATConv" and test_row[12] == ""
    assert far_row[12] == f".625 after {path.updates:,}"


def test_families_table_has_a_row_for_each_test_family() -> None:
    options = {"families": "near,path", "test_families": "path,uniform"}
    runs = [
        make_record(
            "graph-distance", options=options, seed=seed, test=judged(1.0), path_1000=judged(right)
        )
        for seed, right in ((3, 0.25), (1, 0.75))
    ]
    assert family_runs([*runs, run_of("threshold")]) == runs
    [_, found] = cells(families_table(runs))
    assert (*found[:4], found[8]) == ("near,path", "path-1000", "30", ".500 ± .354", "1, 3")


def test_givens_table_takes_puzzles_of_like_difficulty_together() -> None:
    names = ("group", "nodes", "accuracy", "steps")
    groups = [
        ("24 givens", 81, 0.25, 8.0),
        ("27 givens", 243, 0.75, 4.0),
        ("28 givens", 81, 1.0, 2.0),
    ]
    test = {**METRICS, "by_group": [dict(zip(names, own, strict=True)) for own in groups]}
    assert cells(givens_table([make_record("sudoku", test=test)]))[1:] == [
        ["24 to 27", "4", ".625", "5.00"], ["28 to 31", "1", "1.000", "2.00"],
    ]  # fmt: skip
    assert cells(givens_table([]))[1:] == []


def test_halting_chart_has_a_panel_for_what_is_measured() -> None:
    runs = [run_of("threshold"), run_of("gat", 0.25)]
    steps, right = halting_chart(runs).panels
    assert [[*series.points] for series in steps.series] == [[(0.5, 1.5), (2.5, 3.25)]]
    assert [series.points[-1] for series in right.series] == [(2.5, 0.5), (2.5, 0.25)]
    swept = replace(runs[0], sweeps={"near-1000": SWEEP})
    by_work = halting_chart([swept]).panels[-1].series
    assert [[*series.points] for series in by_work] == [
        [(0.125, 0.5), (0.5, 0.75)], [(1.0, 0.5), (2.0, 0.75), (4.0, 0.75)],
    ]  # fmt: skip
    assert not halting_chart([]).panels
