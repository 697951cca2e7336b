from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import pytest

from graphut._files import read_json, write_json
from graphut.experiments.cli import main
from graphut.experiments.tasks import Subwords
from tests.experiments.tasks.tiny_wmt14 import write_corpora

OPTIONS = shlex.split(
    "--corpus full --subwords 270 --epochs 1 --batch-size 5 --d-model 8 --num-heads 2 --d-hidden 8 "
    "--max-steps 2 --max-length 60 --device cpu"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run whose data is not there any more."""
    data = write_corpora(tmp_path_factory.mktemp("data"))
    folder = tmp_path_factory.mktemp("runs") / "wmt14"
    assert main(["train", "wmt14", "--data", str(data), "--out", str(folder), *OPTIONS]) == 0
    return folder


def test_training_ends_with_bleu(run: Path) -> None:
    record = read_json(run / "evaluation-test.json")
    assert 0 <= record["bleu"] <= 100 and record["examples"] == 2
    assert "tok:13a" in record["bleu_signature"]


def test_beam_search_is_an_option_of_eval(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["eval", str(run), "--beam-size", "2", "--length-penalty", "1", "--device", "cpu"]
    assert main(argv) == 0
    assert capsys.readouterr().out.startswith("test, 2 sentences: BLEU ")
    record = read_json(run / "evaluation-test.json")
    assert record["options"] == {"beam_size": 2, "length_penalty": 1.0}


def test_other_pairs_are_judged_without_the_data(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRAPHUT_CACHE", str(tmp_path / "none"))
    (tmp_path / "own.tsv").write_text("a man\tein Mann\n")
    state = read_json(run / "run.json")
    gone = {**state, "task_options": {**state["task_options"], "data": str(tmp_path / "gone")}}
    folder = shutil.copytree(run, tmp_path / "run")
    write_json(folder / "run.json", gone)
    assert main(["eval", str(folder), "--data", str(tmp_path / "own.tsv")]) == 0
    assert "own.tsv, 1 sentences: BLEU " in capsys.readouterr().out


def test_a_sentence_is_generated_as_text(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(run), "one two", "--max-length", "5", "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("text") for line in lines)
    pieces = Subwords.load(run / "source_vocabulary.json")
    assert lines[1].split()[1:] == pieces.readable(pieces.read("one two"))


def test_a_missing_package_is_named_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    argv = ["train", "wmt14", "--data", str(write_corpora(tmp_path)), "--out", str(folder)]
    for name in ("tokenizers", "sacrebleu"):
        monkeypatch.setitem(sys.modules, name, None)
        assert main([*argv, *OPTIONS]) == 2
        assert "pip install graphut[translation]" in capsys.readouterr().err
        assert not folder.exists()
        monkeypatch.undo()
