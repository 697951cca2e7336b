from __future__ import annotations

from typing import Any

from graphut.experiments.results import Records, unshown
from graphut.experiments.results.families import FAMILIES
from graphut.experiments.results.family import Entry, Family
from tests.experiments.results.tiny import PAIRS, make_record, row

LETTERS, SCAN = FAMILIES["letters"], FAMILIES["scan"]


def test_what_is_not_measured_has_its_command() -> None:
    found = row(LETTERS.table([]), "sort", "fixed")
    assert found["test"] == "not measured yet"
    assert found["command"] == "`graphut train sort --preset fixed --seed 0 --out RUN`"


def test_a_reason_is_given() -> None:
    table = FAMILIES["lambada"].table([])
    found = [line for line in table.splitlines() if "(no training novels)" in line]
    assert found and all("--novels DATA/novels" in line for line in found)
    translation = FAMILIES["translation"].table([])
    assert "(many hours without a GPU)" in row(translation, "multi30k", "paper")["BLEU"]
    assert (
        "(many hours without a GPU, not all files are here)"
        in row(translation, "wmt14", "paper")["BLEU"]
    )


def test_presets_for_a_gpu_may_have_other_files() -> None:
    table = FAMILIES["translation"].table([])
    assert "--data DATA/wmt14-en-de-small " in row(table, "wmt14", "small")["command"]
    assert "--data DATA/wmt14 " in row(table, "wmt14", "paper")["command"]


def test_baselines_are_compared_on_the_first_data_set_of_a_table() -> None:
    lines = FAMILIES["scan"].table([]).splitlines()
    assert sum("simple split" in line for line in lines) == 3
    assert sum("length split | small |" in line for line in lines) == 1
    assert not any("length split | fixed |" in line for line in lines)
    families = [family for family in FAMILIES.values() if family.entries]
    assert all(any(entry.baselines for entry in family.entries) for family in families)


def test_what_is_not_measured_is_judged_as_the_others() -> None:
    found = row(FAMILIES["translation"].table([]), "multi30k", "fixed")
    assert found["command"].endswith("`graphut eval RUN --beam-size 4`")


def test_a_text_of_the_users_own_is_no_seed_of_the_pages() -> None:
    nats = {"nats": 1.0, "bits": 1.5, "perplexity": 2.0, "accuracy": 0.5, "steps": 1.0}
    runs = [
        make_record("char-lm", options={"data": f"DATA/{name}"}, test={**nats, "bits": bits})
        for name, bits in (("input.txt", 1.5), ("diary.txt", 9.0))
    ]
    found = row(FAMILIES["char-lm"].table(runs), "char-lm", "small")
    assert (found["bits a character"], found["seed"]) == ("1.50", "0")


def test_presets_that_need_no_gpu_may_be_run_more_briefly() -> None:
    entry = Entry("multi30k", brief={"epochs": 3})
    table = Family([entry], FAMILIES["translation"].columns).table([])
    assert "--epochs 3" in row(table, "multi30k", "small --epochs 3")["command"]
    assert "--epochs" not in row(table, "multi30k", "paper")["command"]


def test_long_test_sets_take_another_command() -> None:
    found = row(FAMILIES["algorithmic"].table([]), "algorithmic-copy", "small")
    assert found["command"].endswith("--out RUN`, `graphut eval RUN`")


def test_a_run_fills_its_row() -> None:
    judged = {**PAIRS, "sequence_accuracy": 0.25, "token_accuracy": 0.9996}
    found = row(LETTERS.table([make_record("sort", test=judged)]), "sort", "small")
    assert found == {
        "task": "sort",
        "model": "small",
        "test": ".999 / .250",
        "steps": "1.00 / 2.00",
        "weights": "1,234",
        "updates": "2,000",
        "minutes": "1.50",
        "on": "Abacus 9, 2 threads",
        "seed": "0",
        "command": "`graphut train sort --preset small --seed 0 --out RUN`",
    }


def test_the_best_seed_by_validation_is_shown_with_the_range() -> None:
    runs = [
        make_record(
            "sort",
            seed=seed,
            validation={"sequence_accuracy": validation},
            test={**PAIRS, "sequence_accuracy": test},
        )
        for seed, validation, test in [(4, 0.5, 0.9), (1, 0.75, 0.25), (2, 0.25, 0.125)]
    ]
    found = row(LETTERS.table(runs), "sort", "small")
    assert found["test"] == ".500 (.500 to .500) / .250 (.125 to .900)"
    assert found["seed"] == "1 of 1, 2, 4"
    assert "--seed 1 " in found["command"]


def test_other_options_have_their_row() -> None:
    record = make_record("sort", options={"max_steps": 9}, test=PAIRS)
    table = LETTERS.table([record])
    assert row(table, "sort", "small")["test"] == "not measured yet"
    assert row(table, "sort", "small --max-steps 9")["test"] == ".500 / .500"


def test_entries_of_a_task_are_told_apart() -> None:
    options: dict[str, Any] = {"data": "DATA/elsewhere", "split": "jump"}
    table = SCAN.table([make_record("scan", options=options, test=PAIRS)])
    assert row(table, "scan, jump split", "small")["test"] == ".500 / .500"
    assert row(table, "scan, simple split", "small")["test"] == "not measured yet"
    assert row(table, "scan, length split", "small")["test"] == "not measured yet"


def test_runs_that_are_judged_in_another_way_are_no_seeds_of_one_row() -> None:
    found = {"bleu": 36.0, "encoder_steps": 1.0, "decoder_steps": 2.0}
    options, bleu = {"data": "DATA/x"}, {"bleu": 30.0}
    runs = [
        make_record(
            "multi30k", options=options, seed=seed, validation=bleu, test={**found, **judged}
        )
        for seed, judged in enumerate([{"options": {"beam_size": 4}}, {}])
    ]
    table = FAMILIES["translation"].table(runs)
    assert row(table, "multi30k", "small")["seed"] == "0"
    assert unshown(Records(runs, [])) == runs[1:]


def test_a_run_with_another_file_is_no_seed_of_a_row() -> None:
    run = make_record("agreement", options={"data": "DATA/x", "split": "small"}, test={})
    table = FAMILIES["agreement"].table([run])
    assert row(table, "agreement, small split", "small")["all"] == "not measured yet"
    assert unshown(Records([run], [])) == [run]


def test_a_set_that_was_not_judged_is_empty() -> None:
    table = FAMILIES["algorithmic"].table([make_record("algorithmic-copy", test=PAIRS)])
    found = row(table, "algorithmic-copy", "small")
    assert (found["to 40"], found["exactly 400"]) == (".500 / .500", "-")


def test_the_papers_figure_stands_under_it() -> None:
    found = row(FAMILIES["algorithmic"].table([]), "algorithmic-copy", "paper")
    assert found["exactly 400"] == ".91 / .35"
    assert found["command"] == "arXiv 1807.03819, section 3.4"


def test_groups_are_columns() -> None:
    groups = [{"group": f"{n} attractors", "accuracy": n / 8} for n in range(1, 6)]
    judged = {
        "accuracy": 0.5, "balanced_accuracy": 0.25, "steps": 1.0, "verb_steps": 2.0,
        "by_group": groups,
    }  # fmt: skip
    options = {"data": "DATA/x", "sentences": "DATA/y", "split": "small"}
    record = make_record("agreement", options=options, test=judged)
    found = row(FAMILIES["agreement"].table([record]), "agreement, small split", "small")
    assert (found["balanced"], found["3 attractors"]) == (".250", ".375")
