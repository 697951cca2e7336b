from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from shutil import copy, copytree
from typing import Any

import pytest

from graphut.experiments.cli import main
from graphut.experiments.cli.options import build
from graphut.experiments.cli.train_options import read_options
from graphut.experiments.results.page import make_tables
from graphut.experiments.results.records import Records, read_records
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.tasks import TASKS, preset_of
from graphut.experiments.training import TrainingConfig, learner_of

EXAMPLES = Path(__file__).parents[3] / "examples"
RECORDS = read_records(EXAMPLES / "results")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page with all tables, and nothing measured."""
    marks = [
        f"<!-- table: {name} -->\n<!-- end -->\n" for name in make_tables(Records([], []), ".")
    ]
    path = tmp_path / "PAGE.md"
    path.write_text("# By hand\n" + "By hand too.\n".join(marks))
    (tmp_path / "kept").mkdir()
    return path


def results(page: Path, *argv: str) -> int:
    return main(["results", "--folder", str(page.parent / "kept"), "--page", str(page), *argv])


def add(page: Path, *measured: Path, options: Sequence[str] = ()) -> int:
    paths = [str(path) for path in measured]
    return main(["results", "add", *paths, "--to", str(page.parent / "kept"), *options])


def test_results_puts_a_run_on_the_page(
    page: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add(page, finished_run, options=["--name", "tiny"]) == 0
    assert capsys.readouterr().out == f"{page.parent / 'kept' / 'tiny.json'}\n"
    assert results(page) == 0
    text = page.read_text()
    assert (
        text.startswith("# By hand\n") and text.count("By hand too.\n") == text.count("table:") - 1
    )
    record = read_records(page.parent / "kept").runs[0]
    assert f"`{record.commands[0]}`" in text
    assert results(page, "--check") == 0


def test_results_add_never_overwrites_silently(
    page: Path, finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copytree(finished_run, tmp_path / "run")
    kept = page.parent / "kept" / "tiny.json"
    options = ["--name", "tiny"]
    assert add(page, run, options=options) == add(page, run, options=options) == 0
    before = kept.read_bytes()
    evaluation = run / "evaluation-test.json"
    evaluation.write_text(evaluation.read_text().replace('"examples": 4', '"examples": 5'))
    capsys.readouterr()
    assert add(page, run, options=options) == 2
    said = capsys.readouterr().err
    assert said == f"graphut: {kept} is there, with other content: --replace writes over it\n"
    assert kept.read_bytes() == before
    assert add(page, run, options=[*options, "--replace"]) == 0
    assert kept.read_bytes() != before


def test_results_check_finds_a_figure_typed_by_hand(
    page: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(page, finished_run)
    results(page)
    built = page.read_text()
    page.write_text(built.replace(".91 / .35", ".90 / .35", 1))
    capsys.readouterr()
    assert results(page, "--check") == 1
    assert "the table 'algorithmic' does not match the records" in capsys.readouterr().out
    page.write_text(built.replace("By hand", "By a hand"))
    assert results(page, "--check") == 0


def test_results_check_finds_a_picture_of_other_data(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy(EXAMPLES / "results" / "sort-small-seed0.json", page.parent / "kept")
    results(page)
    assert "![Accuracy against compute" in page.read_text()
    assert results(page, "--check") == 0
    (page.parent / "kept" / "depth.png").write_bytes(b"another")
    assert results(page, "--check") == 1
    assert "depth.png does not match the records" in capsys.readouterr().out


def test_results_names_a_run_that_no_table_shows(
    page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"a {'b ' * n}\t{'y ' * n}x\n" for n in range(1, 20)))
    run = tmp_path / "run"
    options = ["--epochs", "1", "--d-model", "8", "--num-heads", "2", "--out", str(run)]
    assert main(["train", "pairs", "--data", str(pairs), *options]) == 0
    add(page, run, options=["--name", "mine"])
    capsys.readouterr()
    assert results(page) == 0
    said = "no table has a place for mine: graphut train pairs --data DATA/pairs.tsv"
    assert capsys.readouterr().out.startswith(said)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--folder", "nowhere"], "there is no folder nowhere"),
        (["--page", "nowhere.md"], "nowhere.md"),
        (["add", "nowhere"], "there is no run in nowhere"),
        (["add", "a", "b", "--name", "x"], "--name is for one run"),
    ],
)
def test_results_refuses_bad_input(
    argv: list[str], message: str, refusal: Callable[..., str]
) -> None:
    assert message in refusal("results", *argv)


def test_results_check_of_this_repository(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(EXAMPLES.parent)
    status = main(["results", "--check"])
    assert (status, capsys.readouterr().out) == (0, "")


@pytest.mark.parametrize("record", RECORDS.runs, ids=lambda record: record.name)
def test_record_commands_make_the_run_again(record: RunRecord) -> None:
    """Every option that a record has is what its command gives today."""
    task, *argv = shlex.split(record.commands[0])[2:]
    given = read_options([task, *argv])
    options = {**preset_of(task, given["preset"]), **given}
    learner = learner_of(TASKS[task])
    kinds: list[tuple[Any, dict[str, Any]]] = [
        (TASKS[task], record.task_options),
        (TrainingConfig, record.training),
        (learner.config_kind, record.model),
    ]
    for kind, kept in kinds:
        others = {name: kept[name] for name in learner.from_task if name in kept}
        built = build(kind, options, **others)
        for field in fields(kind):
            value = getattr(built, field.name)
            if not str(value).startswith("/"):
                assert value == kept.get(field.name, field.default), field.name
