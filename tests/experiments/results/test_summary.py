from __future__ import annotations

from graphut.experiments.results.summary import HEADLINES, OTHERS, presets_table, summary_table
from graphut.experiments.results.task_tables import TASK_TABLES
from tests.experiments.results.tiny import PAIRS, cells, make_record, row


def test_summary_table_has_the_preset_small_with_its_seeds() -> None:
    runs = [
        make_record("algorithmic-copy", seed=seed, exactly_400={**PAIRS, "token_accuracy": right})
        for seed, right in enumerate((1.0, 0.5))
    ]
    runs.append(make_record("algorithmic-copy", "fixed", exactly_400=PAIRS))
    runs.append(make_record("lte-copy", test=PAIRS))
    table = summary_table(runs)
    found = row(table, "algorithmic-copy")
    assert found["ours"] == ".750 ± .354 / .500 ± .000 (2 seeds)"
    assert row(table, "algorithmic-reverse")["ours"] == "-"


def test_summary_table_marks_one_run_and_names_other_options() -> None:
    runs = [make_record("algorithmic-copy", options={"max_steps": 9}, exactly_400=PAIRS)]
    ours = row(summary_table(runs), "algorithmic-copy")["ours"]
    assert ours == ".500 / .500 (small --max-steps 9, one run)"


def test_summary_table_has_the_other_run_that_the_task_asks_for() -> None:
    [entry] = TASK_TABLES["listops"].entries
    options = [{}, {"max_steps": 9}, {**entry.also}]
    shares = [{**PAIRS, "sequence_accuracy": share} for share in (0.25, 0.5, 0.75)]
    runs = [
        make_record("listops", options={"data": "DATA/listops", **more}, official_d20s=found)
        for more, found in zip(options, shares, strict=True)
    ]
    ours = row(summary_table(runs), "listops")["ours"]
    assert ours == f".250 (one run); .750 ({entry.also_name}, one run)"


def test_summary_table_has_the_average_of_babi() -> None:
    steps = {"steps": 2.5, "question_steps": 4.0}
    groups = [{"group": f"qa{n}", "error": n / 100, **steps} for n in range(1, 21)]
    options = {"data": "DATA/x", "tasks": "all"}
    table = summary_table([make_record("babi", options=options, test={"by_group": groups})])
    found = row(table, "bAbI, 1k, all together")
    assert found["ours"] == "10.50 (one run)"
    assert found["published"].startswith("UT 7.78 (best of ten runs), 11.21 (mean of ten)")
    assert row(table, "bAbI, 1k, one by one")["ours"] == "-"


def test_presets_table_has_tasks_with_a_baseline() -> None:
    runs = [
        make_record("algorithmic-copy", seed=0, exactly_400=PAIRS),
        make_record("algorithmic-copy", "untied", exactly_400=PAIRS),
        make_record("copy", test=PAIRS),  # without a baseline
    ]
    [head, only] = cells(presets_table(runs))
    assert head == ["task", "measure", "`small`", "`fixed`", "`transformer`", "`untied`"]
    found = ".500 / .500 (one run)"
    assert only == ["algorithmic-copy", "exactly 400", found, "-", "-", found]


def test_summary_table_names_entries_and_columns_that_are_there() -> None:
    names = {
        (entry.label or entry.task, name, column.title)
        for name, table in TASK_TABLES.items()
        for entry in table.entries
        for column in table.columns
    }
    assert {(line.task, line.table, line.column) for line in (*HEADLINES, *OTHERS)} <= names
