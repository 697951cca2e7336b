from __future__ import annotations

from typing import Any

import pytest

from graphut.experiments.results.page import unshown
from graphut.experiments.results.records import Records
from graphut.experiments.results.run_table import Entry, RunTable
from graphut.experiments.results.task_tables import TASK_TABLES
from tests.experiments.results.tiny import PAIRS, cells, make_record, row

LETTERS, SCAN = TASK_TABLES["letters"], TASK_TABLES["scan"]


def test_run_table_has_the_command_of_what_is_not_measured() -> None:
    found = row(LETTERS.markdown([]), "sort", "fixed")
    assert found["test"] == "not measured yet"
    assert found["command"] == "`graphut train sort --preset fixed --seed 0 --out RUN`"


def test_run_table_judges_what_is_not_measured_alike() -> None:
    found = row(TASK_TABLES["translation"].markdown([]), "multi30k", "fixed")
    assert found["command"].endswith("`graphut eval RUN --beam-size 4`")


def test_entry_cpu_options_are_not_for_gpu_presets() -> None:
    entry = Entry("multi30k", cpu_options={"epochs": 3})
    table = RunTable([entry], TASK_TABLES["translation"].columns).markdown([])
    assert "--epochs 3" in row(table, "multi30k", "small --epochs 3")["command"]
    assert "--epochs" not in row(table, "multi30k", "paper")["command"]


def test_run_table_row_of_a_run() -> None:
    judged = {**PAIRS, "sequence_accuracy": 0.25, "token_accuracy": 0.9996}
    found = row(LETTERS.markdown([make_record("sort", test=judged)]), "sort", "small")
    assert found == {
        "task": "sort",
        "model": "small",
        "test": ".999 / .250",
        "steps": "1.00 / 2.00",
        "weights": "1,234",
        "updates": "2,000",
        "minutes": "1.50",
        "on": "Abacus 9, 2 threads",
        "seeds": "one run: 0",
        "command": "`graphut train sort --preset small --seed 0 --out RUN`",
    }


def test_run_table_shows_mean_and_deviation_of_the_seeds() -> None:
    runs = [
        make_record(
            "sort",
            seed=seed,
            validation={"sequence_accuracy": validation},
            test={**PAIRS, "sequence_accuracy": test},
        )
        for seed, validation, test in [(4, 0.5, 1.0), (1, 0.25, 0.25), (2, 0.75, 0.25)]
    ]
    found = row(LETTERS.markdown(runs), "sort", "small")
    assert found["test"] == ".500 ± .000 / .500 ± .433"
    assert found["seeds"] == "1, 2, 4"
    assert "--seed 1 " in found["command"]


def test_run_table_does_not_take_two_runs_of_a_seed_for_two_seeds() -> None:
    runs = [make_record("sort", options=o, test=PAIRS) for o in ({}, {"precision": "float32"})]
    with pytest.raises(ValueError, match=r"sort-small\S+ and sort-small\S+ are the same run"):
        LETTERS.markdown(runs)


@pytest.mark.parametrize(
    ("training", "validation", "trained"),
    [(0.7, 0.25, False), (0.73, 0.25, True), (0.7, 0.75, True)],
)
def test_run_table_says_that_a_run_did_not_train(
    training: float, validation: float, trained: bool
) -> None:
    runs = [make_record("sort", training_accuracy=0.9, test=PAIRS)]
    judged = {"sequence_accuracy": validation}
    runs.append(
        make_record("sort", "fixed", training_accuracy=training, validation=judged, test=PAIRS)
    )
    table = LETTERS.markdown(runs)
    assert row(table, "sort", "small")["test"] == ".500 / .500"
    found = row(table, "sort", "fixed")
    assert found["test"] == (".500 / .500" if trained else "did not train")
    assert found["updates"] == "2,000"


def test_run_table_does_not_compare_with_a_longer_training() -> None:
    judged = {"sequence_accuracy": 0.25}
    runs = [make_record("sort", training_accuracy=0.5, validation=judged, test=PAIRS)]
    longer = {"epochs": 600}
    runs.append(make_record("sort", options=longer, training_accuracy=0.9, test=PAIRS))
    assert row(LETTERS.markdown(runs), "sort", "small")["test"] == ".500 / .500"


def test_run_table_shows_untied_layers_where_they_were_measured() -> None:
    assert "untied" not in LETTERS.markdown([])
    table = LETTERS.markdown([make_record("sort", "untied", test=PAIRS)])
    assert row(table, "sort", "untied")["test"] == ".500 / .500"


def test_run_table_has_a_row_for_other_options() -> None:
    record = make_record("sort", options={"max_steps": 9}, test=PAIRS)
    table = LETTERS.markdown([record])
    assert row(table, "sort", "small")["test"] == "not measured yet"
    assert row(table, "sort", "small --max-steps 9")["test"] == ".500 / .500"


def test_run_table_takes_a_run_in_bfloat16_for_that_of_the_preset() -> None:
    options = {"precision": "bfloat16"}
    table = LETTERS.markdown([make_record("sort", options=options, test=PAIRS)])
    models = [own[1] for own in cells(table) if own[0] == "sort"]
    assert models == ["small --precision bfloat16", "fixed", "transformer"]
    both = LETTERS.markdown([make_record("sort", options=o, test=PAIRS) for o in (options, {})])
    models = [own[1] for own in cells(both) if own[0] == "sort"]
    assert models == ["small", "fixed", "transformer", "small --precision bfloat16"]


def test_run_table_takes_a_run_in_float32_on_a_cpu_for_that_of_the_preset() -> None:
    options = {"precision": "float32"}
    runs = [
        make_record("sort", seed=seed, options=o, test=PAIRS)
        for seed, o in enumerate((options, {}))
    ]
    assert row(LETTERS.markdown(runs), "sort", "small")["seeds"] == "0, 1"


def test_run_table_tells_entries_of_a_task_apart() -> None:
    options: dict[str, Any] = {"data": "DATA/elsewhere", "split": "jump"}
    table = SCAN.markdown([make_record("scan", options=options, test=PAIRS)])
    assert row(table, "scan, jump split", "small")["test"] == ".500 / .500"
    assert row(table, "scan, simple split", "small")["test"] == "not measured yet"
    assert row(table, "scan, length split", "small")["test"] == "not measured yet"


def test_run_table_leaves_out_runs_judged_in_another_way() -> None:
    found = {"bleu": 36.0, "encoder_steps": 1.0, "decoder_steps": 2.0}
    options, bleu = {"data": "DATA/x"}, {"bleu": 30.0}
    runs = [
        make_record(
            "multi30k", options=options, seed=seed, validation=bleu, test={**found, **judged}
        )
        for seed, judged in enumerate([{"options": {"beam_size": 4}}, {}])
    ]
    table = TASK_TABLES["translation"].markdown(runs)
    assert row(table, "multi30k", "small")["seeds"] == "one run: 0"
    assert unshown(Records(runs, [])) == runs[1:]


def test_run_table_leaves_out_runs_with_another_file() -> None:
    run = make_record("agreement", options={"data": "DATA/x", "split": "small"}, test={})
    table = TASK_TABLES["agreement"].markdown([run])
    assert row(table, "agreement, small split", "small")["all"] == "not measured yet"
    assert unshown(Records([run], [])) == [run]
