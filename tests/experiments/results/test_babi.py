from __future__ import annotations

from typing import Any

import pytest

from graphut.experiments.results import babi as module
from graphut.experiments.results.babi import (
    babi_averages,
    babi_table,
    babi_trials,
    published_errors,
)
from tests.experiments.results.tiny import cells, make_record, row

STEPS = {"steps": 2.5, "question_steps": 4.0}


def make_runs(
    size: str, errors: dict[int, float], options: dict[str, Any] | None = None, **more: Any
) -> list[Any]:
    return [
        make_record(
            "babi",
            options={"data": "DATA/x", "tasks": str(task), "size": size, **(options or {})},
            test={"by_group": [{"group": f"qa{task}", "error": error, **STEPS}]},
            **more,
        )
        for task, error in errors.items()
    ]


def test_babi_table_without_runs() -> None:
    table = babi_table([], "10k", joint=False)
    assert row(table, "average error, %")["small --epochs 40"] == "not measured yet"
    assert row(table, "average error, %")["published, best of ten"] == "0.21"
    assert len(cells(table)) == 3  # no row for a task
    assert "- small --epochs 40: not measured yet; `graphut train babi --preset small" in table
    assert "--size 10k" in table


def test_babi_table_of_single_tasks() -> None:
    runs = make_runs("1k", {1: 0.0, 2: 0.1, 20: 0.05})
    runs += make_runs("10k", {3: 0.5})
    table = babi_table(runs, "1k", joint=False)
    assert [cells[:2] for cells in cells(table)[1:4]] == [
        ["qa1", "0.00 at 2.50, 4.00"],
        ["qa2", "10.00 at 2.50, 4.00"],
        ["qa20", "5.00 at 2.50, 4.00"],
    ]
    assert row(table, "average error, %")["small"] == "5.00 (3 tasks)"
    assert row(table, "failed (over 5%)")["small"] == "1 (3 tasks)"
    assert "- small: seeds 0 (3 runs); `graphut train babi" in table


def test_babi_table_leaves_out_other_depths() -> None:
    for option, value in (("max_steps", 1), ("halting_gain", 1.0)):
        runs = make_runs("1k", {1: 0.5}, options={option: value})
        assert option.replace("_", "-") not in babi_table(runs, "1k", joint=False)
        assert len(cells(babi_trials(runs))) == 1
    trial = make_runs("1k", {1: 0.5}, options={"max_steps": 1, "dropout": 0.25})
    assert "small --max-steps 1 --dropout 0.25" in babi_trials(trial)
    runs = [make_record("babi", options={"data": "DATA/x", "tasks": "all", "max_steps": 1})]
    assert "max-steps" not in babi_table(runs, "1k", joint=True)


def test_babi_trials_stand_beside_the_preset_on_the_same_tasks() -> None:
    runs = make_runs("1k", {1: 0.5, 2: 0.25}, options={"dropout": 0.25})
    runs += make_runs("1k", {1: 0.125, 2: 0.0, 3: 1.0})
    assert "--dropout" not in babi_table(runs, "1k", joint=False)
    assert cells(babi_trials(runs))[1:] == [
        ["1k, one by one", "small --dropout 0.25", "qa1 50.00, qa2 25.00", "37.50", "6.25"]
    ]
    assert row(babi_trials(runs[:3]), "1k, one by one")["mean of the preset"] == "-"


def test_babi_tables_mark_a_run_that_did_not_train() -> None:
    worse = {"validation": {"accuracy": 0.25}, "training_accuracy": 0.25}
    runs = make_runs("1k", {1: 0.25}) + make_runs("1k", {1: 0.75}, seed=1, **worse)
    table = babi_table(runs, "1k", joint=False)
    assert row(table, "qa1")["small"] == r"50.00 ± 35.36\* at 2.50, 4.00"
    assert r"- \*: one of the runs did not train" in table
    assert "did not train" not in babi_table(runs[:1], "1k", joint=False)
    trial = make_runs("1k", {1: 0.75}, options={"dropout": 0.25}, **worse)
    trials = babi_trials([*runs[:1], *trial])
    assert row(trials, "1k, one by one")["error, %"] == r"qa1 75.00\*"


def test_babi_table_has_the_setting_for_few_questions_beside_the_presets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_FEW_QUESTIONS", {"dropout": 0.25})
    runs = make_runs("1k", {1: 0.5, 2: 0.25}, options={"dropout": 0.25})
    runs += make_runs("1k", {1: 0.75, 2: 0.0})
    table = babi_table(runs, "1k", joint=False)
    assert row(table, "qa1")["small"] == "75.00 at 2.50, 4.00"
    assert row(table, "qa1")["small --dropout 0.25"] == "50.00 at 2.50, 4.00"
    assert len(cells(babi_trials(runs))) == 1  # no trial
    for size, joint in (("1k", True), ("10k", False)):
        assert "--dropout" not in babi_table(runs, size, joint=joint)
    runs += make_runs("1k", {1: 1.0, 2: 0.0}, preset="transformer")
    ours, plain, none = babi_averages(runs, "1k", ("small", "transformer", "fixed"), joint=False)
    own, other = (
        "37.50 (2 tasks) (one run)",
        "37.50 (2 tasks) (narrow, geometric attention, one run)",
    )
    assert (ours, plain, none) == ([own, other], ["50.00 (2 tasks) (one run)"], [])


def test_babi_table_of_10k_has_fewer_epochs_and_no_baselines() -> None:
    options = {"epochs": 40}
    runs = make_runs("10k", {1: 0.5}, options=options)
    runs += make_runs("10k", {1: 0.25}, preset="fixed", options=options)
    table = babi_table(runs, "10k", joint=False)
    assert row(table, "qa1")["small --epochs 40"] == "50.00 at 2.50, 4.00"
    assert "--epochs 40" in babi_table([], "10k", joint=True)
    assert "fixed" not in table and "transformer" not in table


def test_babi_table_of_all_twenty_tasks() -> None:
    table = babi_table(make_runs("1k", {n: 0.01 * n for n in range(1, 21)}), "1k", joint=False)
    assert row(table, "average error, %")["small"] == "10.50"
    assert row(table, "failed (over 5%)")["small"] == "15"


def test_babi_table_shows_mean_and_deviation_of_the_seeds() -> None:
    runs = make_runs("1k", {1: 0.2, 2: 0.04}, seed=3)
    runs += make_runs("1k", {1: 0.1, 2: 0.04}, seed=4) + make_runs("1k", {1: 0.9}, seed=5)
    table = babi_table(runs, "1k", joint=False)
    assert row(table, "qa2")["small"] == "4.00 ± 0.00 at 2.50, 4.00"
    assert row(table, "average error, %")["small"] == "9.50 ± 3.54 (2 tasks)"
    assert row(table, "failed (over 5%)")["small"] == "1 (2 tasks)"
    assert "seeds 3 (2 runs), 4 (2 runs), 5 (1 run)" in table


def test_babi_table_takes_means_of_tasks_over_the_seeds_that_all_have() -> None:
    runs = make_runs("1k", {1: 0.2, 2: 0.4}, seed=3) + make_runs("1k", {1: 0.1}, seed=4)
    runs += make_runs("1k", {1: 0.3, 2: 0.1}, seed=5)
    table = babi_table(runs, "1k", joint=False)
    assert row(table, "average error, %")["small"] == "25.00 ± 7.07 (2 tasks)"


def test_babi_table_of_joint_runs() -> None:
    groups = [{"group": f"qa{n}", "error": n / 100, **STEPS} for n in range(1, 21)]
    record = make_record(
        "babi",
        options={"data": "DATA/x", "tasks": "all"},
        test={"by_group": groups},
    )
    table = babi_table([record], "1k", joint=True)
    assert row(table, "qa7")["small"] == "7.00 at 2.50, 4.00"
    assert row(table, "average error, %") == {
        "task": "average error, %", "small": "10.50", "fixed": "not measured yet",
        "transformer": "not measured yet",
        "published, best of ten": "7.78", "published, mean of ten": "11.21",
    }  # fmt: skip
    assert "--tasks all" in table
    average = row(babi_table([record], "10k", joint=True), "average error, %")
    assert average["small --epochs 40"] == "not measured yet"


@pytest.mark.parametrize(
    ("size", "joint", "best", "mean"),
    [
        ("10k", False, 0.21, 0.73),
        ("10k", True, 0.29, 1.12),
        ("1k", False, 4.55, 6.34),
        ("1k", True, 7.78, 11.21),
    ],
)
def test_published_errors_have_the_means_of_the_paper(
    size: str, joint: bool, best: float, mean: float
) -> None:
    found = [*map(float, published_errors(size, range(1, 21), joint=joint))]
    assert found == pytest.approx([best, mean], abs=0.011)  # its rows are rounded to one digit


def test_babi_table_averages_the_published_errors_of_the_measured_tasks() -> None:
    average = row(
        babi_table(make_runs("1k", {1: 0.5, 3: 0.5}), "1k", joint=False), "average error, %"
    )
    assert average["published, best of ten"] == "1.85"
    assert average["published, mean of ten"] == "4.65"
