from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from graphut._files import read_json
from graphut.experiments.cli import main
from graphut.experiments.tasks import Sort
from graphut.experiments.training import Run, evaluate
from tests.experiments.cli.tiny import TINY


def test_the_test_set(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(finished_run, tmp_path / "run")
    kept = folder / "evaluation-test.json"
    before = kept.read_bytes()  # what training has found
    kept.unlink()
    assert main(["eval", str(folder), "--device", "cpu"]) == 0
    run = Run.open(folder)
    task = run.task()
    wanted = evaluate(run.model(), task, task.test)
    assert capsys.readouterr().out == f"test, 4 sequences: {wanted}\n"
    assert kept.read_bytes() == before


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a task with several test sets."""
    folder = tmp_path_factory.mktemp("runs") / "long"
    options = TINY[TINY.index("--epoch-size") :]
    argv = ["--train-length", "3", "--test-length", "6", "--out", str(folder), *options]
    assert main(["train", "algorithmic-addition", *argv]) == 0
    return folder


def test_several_test_sets(long_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["test", "up-to-6", "exactly-6"]
    assert main(["eval", str(long_run), "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == names
    records = [read_json(long_run / f"evaluation-{name}.json") for name in names]
    assert [record["set"] for record in records] == names
    [row] = records[2]["by_source_length"]
    assert (row["from"], row["to"], row["examples"]) == (6, 6, 4)


def test_one_test_set(long_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(long_run), "--set", "exactly-6", "--device", "cpu"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("exactly-6, 4 sequences: ")
    assert main(["eval", str(long_run), "--set", "longer", "--device", "cpu"]) == 2
    message = "algorithmic-addition has no test set 'longer'; it has: test, up-to-6, exactly-6"
    assert message in capsys.readouterr().err


def test_other_pairs(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.tsv"
    path.write_text("b a\ta b\nc\tc\n")
    before = sorted(finished_run.iterdir())
    assert main(["eval", str(finished_run), "--data", str(path), "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith(f"{path}, 2 sequences: ")
    assert sorted(finished_run.iterdir()) == before


def test_a_search_is_kept_with_what_it_found(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(finished_run, tmp_path / "run")
    assert main(["eval", str(folder), "--beam-size", "3", "--device", "cpu"]) == 0
    run = Run.open(folder)
    task = run.task()
    wanted, more = run.learner.evaluate_in_detail(
        run.model(), run.vocabularies, task.test, beam_size=3
    )
    assert capsys.readouterr().out == f"test, 4 sequences: {wanted}\n"
    record = read_json(folder / "evaluation-test.json")
    assert record["options"] == {"beam_size": 3}
    assert record["by_source_length"] == more["by_source_length"]
    assert 0 < record["flops_share"] <= 1
    assert main(["eval", str(folder), "--beam-size", "0", "--device", "cpu"]) == 2
    assert "beam_size must be at least 1, got 0" in capsys.readouterr().err


def test_other_pairs_need_no_data_of_the_task(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "other.tsv"
    path.write_text("b a\ta b\n")
    monkeypatch.setattr(Sort, "vocabularies", property(lambda self: pytest.fail("read")))
    assert main(["eval", str(finished_run), "--data", str(path), "--device", "cpu"]) == 0


def test_a_folder_without_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"graphut: there is no run in {tmp_path}")
