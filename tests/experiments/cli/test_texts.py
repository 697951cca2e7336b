"""The tasks of texts, trained, judged and asked from the command line."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from graphut._files import read_json
from graphut.experiments.cli import main
from graphut.experiments.tasks import agreement, lambada
from graphut.experiments.tasks.files import DataSet

MODEL = shlex.split("--d-model 8 --num-heads 2 --d-hidden 8 --max-steps 2 --epochs 1 --device cpu")
SENTENCES = ["VBZ\tthe key", "VBP\tthe keys", "VBZ\tthe key to the cabinets", "VBP\tthe dogs"]
PASSAGES = [f"he saw a {animal} , and fed the {animal}" for animal in ("cat", "dog", "owl", "ox")]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small files under the names of the published ones."""
    prefixes = ["numpred.val", *(f"numpred.test.{n}" for n in range(1, 6))]
    for number, name in enumerate(prefixes):
        lines = "\n".join(f"{line}{' one' * number}" for line in SENTENCES * 2)
        (tmp_path / name).write_text(lines + "\n")
    passages = ["lambada_development_plain_text.txt", "lambada_test_plain_text.txt"]
    for name in passages:
        (tmp_path / name).write_text("\n".join(PASSAGES * 3) + "\n")
    (tmp_path / "text.txt").write_text("to be, or not to be.\n" * 40)
    (tmp_path / "novel.txt").write_text("once , the dog was here . " * 9)
    for where, name, files in (
        (agreement, "_DATA", prefixes),
        (lambada, "LAMBADA", passages),
    ):
        monkeypatch.setattr(where, name, DataSet("from nowhere", dict.fromkeys(files)))
    return tmp_path


def run(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(argv) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("task", "options", "prompt", "kept"),
    [
        ("char-lm", "--data text.txt --window 16 --epoch-size 8", "to be\nor ", "by_surprisal"),
        (
            "agreement",
            "--data . --split small --held-out 2",
            "the key to the lighthouse",
            "by_group",
        ),
        ("lambada", "--data . --held-out 4", "he saw a unicorn", "by_surprisal"),
        ("lambada", "--data . --novels novel.txt --epoch-size 4", "once , the dog", "by_surprisal"),
    ],
)
def test_train_eval_and_generate(
    task: str,
    options: str,
    prompt: str,
    kept: str,
    data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(data)
    said = run(["train", task, "--out", "run", *shlex.split(options), *MODEL], capsys)
    assert "epoch 1: loss" in said and "\ntext " in said
    first = read_json(data / "run" / "evaluation-test.json")
    assert first[kept] and 0 < first["flops_share"] <= 1
    assert run(["eval", "run", "--device", "cpu"], capsys).startswith("test, ")
    assert read_json(data / "run" / "evaluation-test.json") == first
    argv = ["generate", "run", prompt, "--max-length", "5", "--device", "cpu"]
    for more in ([], ["--temperature", "0.9", "--top-p", "0.8"], ["--beam-size", "2"]):
        text, table = run([*argv, *more], capsys).strip("\n").split("\n\n", 1)
        assert text.startswith(prompt.replace("lighthouse", "<unk>").replace("unicorn", "<unk>"))
        assert table.startswith("text ") and "\nsteps " in table


def test_a_character_that_is_not_known(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    options = shlex.split("--data text.txt --window 16 --epoch-size 8")
    run(["train", "char-lm", "--out", "run", *options, *MODEL], capsys)
    assert main(["generate", "run", "to be?", "--device", "cpu"]) == 2
    assert "graphut: unknown symbol '?'; known are: ⏎ ␣ , . b" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("char-lm --data other.txt", "other.txt"),
        ("char-lm --data text.txt", "has 840 characters: too few for windows of 128"),
        ("agreement --data .", "numpred.test.0"),
        ("lambada --data . --novels nothing", "nothing"),
        ("char-lm --data text.txt --topology window:3", r"topology must be causal"),
    ],
)
def test_nothing_is_written_after_a_mistake(
    options: str,
    message: str,
    data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(data)
    window = ["--window", "16"] if "topology" in options else []
    assert main(["train", *shlex.split(options), "--out", "run", *window]) == 2
    assert message in capsys.readouterr().err
    assert not (data / "run").exists()
