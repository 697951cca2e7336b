from __future__ import annotations

import csv
import io
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from graphut._files import read_checked_json, read_json, with_checksum, write_json
from graphut.experiments.cli import main
from graphut.experiments.tasks import Sort, babi, lambada
from graphut.experiments.tasks.files import DataSet
from graphut.experiments.tasks.subwords import Subwords
from graphut.experiments.training import Run, evaluate
from graphut.experiments.training.run_files import model_digest
from graphut.models.base import AdaptiveModel
from tests.experiments.cli.tiny import MODEL, TINY
from tests.experiments.tasks.tiny_wmt14 import write_corpora


def test_eval_of_the_test_set(
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


def test_eval_names_the_weights_that_it_judged(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(finished_run, tmp_path / "run")
    judged, load = model_digest(folder), Run.trained_model

    def load_before_an_epoch_ends(run: Run, device: torch.device) -> AdaptiveModel:
        model = load(run, device)
        newer = run.model()
        next(newer.parameters()).data += 1
        newer.save_pretrained(folder)
        return model

    monkeypatch.setattr(Run, "trained_model", load_before_an_epoch_ends)
    assert main(["eval", str(folder), "--device", "cpu"]) == 0
    assert read_json(folder / "evaluation-test.json")["model"] == judged != model_digest(folder)


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a task with several test sets."""
    folder = tmp_path_factory.mktemp("runs") / "long"
    options = TINY[TINY.index("--epoch-size") :]
    argv = ["--train-length", "3", "--test-length", "6", "--out", str(folder), *options]
    assert main(["train", "algorithmic-addition", *argv]) == 0
    return folder


def test_eval_of_several_test_sets(long_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["test", "up-to-6", "exactly-6"]
    assert main(["eval", str(long_run), "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == names
    records = [read_json(long_run / f"evaluation-{name}.json") for name in names]
    assert [record["set"] for record in records] == names
    [row] = records[2]["by_source_length"]
    assert (row["from"], row["to"], row["examples"]) == (6, 6, 4)


def test_eval_of_one_test_set(long_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(long_run), "--set", "exactly-6", "--device", "cpu"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("exactly-6, 4 sequences: ")
    assert main(["eval", str(long_run), "--set", "longer", "--device", "cpu"]) == 2
    message = "algorithmic-addition has no test set 'longer'; it has: test, up-to-6, exactly-6"
    assert message in capsys.readouterr().err


def test_eval_and_train_append_to_tables_of_results(long_run: Path, tmp_path: Path) -> None:
    rows, curves = tmp_path / "runs.csv", tmp_path / "curves.csv"
    files = ["--results", str(rows), "--curves", str(curves)]
    assert main(["eval", str(long_run), "--device", "cpu", *files]) == 0
    pairs = tmp_path / "own.tsv"
    pairs.write_text("1 2\t2 1\n")
    assert main(["eval", str(long_run), "--data", str(pairs), *files]) == 0
    argv = ["train", "sort", *TINY, "--seed", "3", "--norm", "pre", "--out", str(tmp_path / "run")]
    assert main([*argv, *files]) == 0

    table = [*csv.DictReader(io.StringIO(rows.read_text()))]
    assert [(row["task"], row["set"]) for row in table] == [
        *(("algorithmic-addition", name) for name in ("test", "up-to-6", "exactly-6")),
        ("algorithmic-addition", "DATA/own.tsv"), ("sort", "test"),
    ]  # fmt: skip
    first, last = table[0], table[-1]
    found = read_json(long_run / "evaluation-test.json")
    for name, value in found.items():
        if isinstance(value, (int, float)):
            assert float(first[name]) == pytest.approx(value, rel=1e-5)
    assert (last["preset"], last["seed"], last["eval_options"]) == ("small", "3", "")
    assert "--norm pre" in last["options"] and "seed" not in last["options"]
    assert last["updates"] == "4" and last["torch"] == torch.__version__ and last["cpu"]

    parts = [*csv.DictReader(io.StringIO(curves.read_text()))]
    shown = [
        float(row["token_accuracy"])
        for row in parts
        if (row["task"], row["by"], row["set"]) == (first["task"], "source_length", "test")
    ]
    wanted = [part["token_accuracy"] for part in found["by_source_length"]]
    assert shown == pytest.approx(wanted, rel=1e-5)
    assert {row["by"] for row in parts} == {"source_length", "target_length"}


def test_results_file_is_checked_before_the_work(
    tmp_path: Path, refusal: Callable[..., str]
) -> None:
    table = tmp_path / "runs.csv"
    table.write_text("a,a\n")
    argv = ["train", "sort", *TINY, "--out", str(tmp_path / "run"), "--results"]
    assert "runs.csv is not a table of results" in refusal(*argv, str(table))
    assert "make its folder" in refusal(*argv, str(tmp_path / "nowhere" / "runs.csv"))
    assert not (tmp_path / "run").exists()


def test_eval_of_other_pairs(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.tsv"
    path.write_text("b a\ta b\nc\tc\n")
    before = sorted(finished_run.iterdir())
    assert main(["eval", str(finished_run), "--data", str(path), "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith(f"{path}, 2 sequences: ")
    assert sorted(finished_run.iterdir()) == before


@pytest.mark.parametrize("side", ["source", "target"])
def test_eval_names_a_line_that_is_too_long(
    finished_run: Path, tmp_path: Path, side: str, refusal: Callable[..., str]
) -> None:
    path, long = tmp_path / "other.tsv", "a " * 100_000
    path.write_text(f"b a\ta b\n{long}\tc\n" if side == "source" else f"b a\ta b\nc\t{long}\n")
    said = refusal("eval", str(finished_run), "--data", str(path), "--device", "cpu")
    assert said.startswith(f"graphut: {path}:2: the {side} has 100000 tokens, but the model takes")


def test_eval_keeps_a_search_with_what_it_found(
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
    assert "beam_size must be an integer from 1, got 0" in capsys.readouterr().err


def test_eval_of_other_pairs_needs_no_data_of_the_task(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "other.tsv"
    path.write_text("b a\ta b\n")
    monkeypatch.setattr(Sort, "vocabularies", property(lambda self: pytest.fail("read")))
    assert main(["eval", str(finished_run), "--data", str(path), "--device", "cpu"]) == 0


def test_eval_refuses_a_folder_without_a_run(tmp_path: Path, refusal: Callable[..., str]) -> None:
    assert refusal("eval", str(tmp_path)).startswith(f"graphut: there is no run in {tmp_path}")


STORY = """1 Mary went to the hall.
2 John went to the garden.
3 Where is Mary? \thall\t1
4 Mary is tired.
5 Where is John? \tgarden\t2
"""
PASSAGE = "the key to the door is the key\nhe lost the old dog\n" * 3


@pytest.fixture
def stories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with two tasks of bAbI's form."""
    folder = tmp_path / "stories"
    for number in (1, 2):
        for part in ("train", "valid", "test"):
            path = folder / f"en-valid/qa{number}_{part}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(STORY * 4)
    monkeypatch.setattr(babi, "_CHECKSUMS", {})
    return str(folder)


@pytest.fixture
def passages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with LAMBADA's files."""
    known = lambada.LAMBADA
    for name in known.checksums:
        (tmp_path / name).write_text(PASSAGE)
    data = DataSet(known.origin, dict.fromkeys(known.checksums))
    monkeypatch.setattr(lambada, "LAMBADA", data)
    return str(tmp_path)


def test_eval_of_questions(
    stories: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    assert main(["train", "babi", "--data", stories, "--tasks", "1,2", "--out", run, *MODEL]) == 0
    said = capsys.readouterr().out
    assert "error " in said and "mary went to the hall" in said and "correct: hall" in said
    assert main(["eval", run, "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "test, 16 questions",
        "qa1, 8 questions",
        "qa2, 8 questions",
    ]
    record = read_json(Path(run, "evaluation-test.json"))
    assert [row["group"] for row in record["by_group"]] == ["qa1", "qa2"]
    assert [row["supporting"] for row in record["by_supporting"]] == [1]
    asked = "John went to the hall. Where is John?"
    assert main(["generate", run, asked, "--device", "cpu"]) == 0
    *_, last, answer = capsys.readouterr().out.splitlines()
    assert last.endswith("  Where is John?")
    assert answer.startswith(("answer  hall (", "answer  garden ("))
    own = tmp_path / "own.txt"
    own.write_text(STORY)
    assert main(["eval", run, "--data", str(own), "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith(f"{own}, 2 questions: ")


def test_eval_refuses_data_that_has_changed(
    stories: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    assert main(["train", "babi", "--data", stories, "--out", run, *MODEL]) == 0
    path = Path(stories, "en-valid/qa1_test.txt")
    path.write_text(path.read_text() + STORY)  # no new word
    assert main(["eval", run]) == 2
    assert "qa1_test.txt has changed since the run in" in capsys.readouterr().err


def test_eval_after_data_was_moved(
    stories: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    assert main(["train", "babi", "--data", stories, "--out", run, *MODEL]) == 0
    moved = Path(stories).rename(tmp_path / "moved")
    assert main(["eval", run]) == 2
    assert f"graphut train babi --resume --data PATH --out {run}" in capsys.readouterr().err
    assert main(["train", "babi", "--resume", "--data", str(moved), "--out", run]) == 0
    assert main(["eval", run]) == 0


def test_eval_of_passages(
    passages: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    arguments = ["--data", passages, "--held-out", "2", "--out", run, *MODEL]
    assert main(["train", "lambada-reading", *arguments]) == 0
    assert "accuracy " in capsys.readouterr().out
    assert main(["eval", run, "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith("test, 6 passages: ")
    assert main(["generate", run, "the umbrella", "--device", "cpu"]) == 0
    asked, _, answer = capsys.readouterr().out.strip().splitlines()
    assert asked == "input   the umbrella"
    assert answer.split()[1] in ("the", "umbrella")


def test_commands_refuse_mistakes_about_questions(
    stories: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    for arguments, message in (
        (["--tasks", "21", "--data", stories], "tasks must be numbers from 1 to 20"),
        (["--data", str(tmp_path)], "qa1_train.txt; missing in the folder: en-valid/qa1_train"),
        (["--tasks", "1"], "--data is missing: folder of bAbI, from https"),
        (["--data", stories, "--tie-output"], "--tie-output is no option of the task babi"),
    ):
        assert main(["train", "babi", "--out", str(run), *arguments]) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
        assert not run.exists()
    assert main(["train", "babi", "--data", stories, "--out", str(run), *MODEL]) == 0
    for text, message in (("Where is Bill?", "'bill'"), ("?", "'?' has no sentence")):
        assert main(["generate", str(run), text, "--device", "cpu"]) == 2
        assert message in capsys.readouterr().err
    assert main(["generate", str(run), "Where is Mary?", "--temperature", "1"]) == 2
    assert "--temperature is no option of the task babi" in capsys.readouterr().err
    long = "John John went to the the the hall."
    assert main(["generate", str(run), long, "--device", "cpu"]) == 2
    assert "a sentence has 8 words, but the model takes at most 5" in capsys.readouterr().err


OPTIONS = shlex.split(
    "--corpus full --subwords 270 --epochs 1 --batch-size 5 --d-model 8 --num-heads 2 --d-hidden 8 "
    "--max-steps 2 --max-length 60 --device cpu"
)


@pytest.fixture(scope="module")
def translation_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run whose data is not there any more."""
    data = write_corpora(tmp_path_factory.mktemp("data"))
    folder = tmp_path_factory.mktemp("runs") / "wmt14"
    assert main(["train", "wmt14", "--data", str(data), "--out", str(folder), *OPTIONS]) == 0
    return folder


def test_train_ends_with_bleu(translation_run: Path) -> None:
    record = read_json(translation_run / "evaluation-test.json")
    assert 0 <= record["bleu"] <= 100 and record["examples"] == 2
    assert "tok:13a" in record["bleu_signature"]


def test_eval_takes_options_of_beam_search(
    translation_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [
        "eval",
        str(translation_run),
        "--beam-size",
        "2",
        "--length-penalty",
        "1",
        "--device",
        "cpu",
    ]
    assert main(argv) == 0
    assert capsys.readouterr().out.startswith("test, 2 sentences: BLEU ")
    record = read_json(translation_run / "evaluation-test.json")
    assert record["options"] == {"beam_size": 2, "length_penalty": 1.0}


def test_eval_of_other_translations_needs_no_data(
    translation_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GRAPHUT_CACHE", str(tmp_path / "none"))
    (tmp_path / "own.tsv").write_text("a man\tein Mann\n")
    state, _ = read_checked_json(translation_run / "run.json")
    gone = {**state, "task_options": {**state["task_options"], "data": str(tmp_path / "gone")}}
    folder = shutil.copytree(translation_run, tmp_path / "run")
    write_json(folder / "run.json", with_checksum(gone))
    assert main(["eval", str(folder), "--data", str(tmp_path / "own.tsv")]) == 0
    assert "own.tsv, 1 sentence: BLEU " in capsys.readouterr().out


def test_generate_translates_text(
    translation_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["generate", str(translation_run), "one two", "--max-length", "5", "--device", "cpu"])
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("text") for line in lines)
    pieces = Subwords.load(translation_run / "source_vocabulary.json")
    assert lines[1].split()[1:] == pieces.readable(pieces.read("one two"))


def test_train_names_a_missing_package_before_it_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    argv = ["train", "wmt14", "--data", str(write_corpora(tmp_path)), "--out", str(folder)]
    for name in ("tokenizers", "sacrebleu"):
        monkeypatch.setitem(sys.modules, name, None)
        assert main([*argv, *OPTIONS]) == 2
        assert 'pip install "graphut[translation]"' in capsys.readouterr().err
        assert not folder.exists()
        monkeypatch.undo()
