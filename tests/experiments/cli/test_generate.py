from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import fields
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from graphut._files import read_json
from graphut.experiments.cli import main
from graphut.experiments.cli.train_options import read_options
from graphut.experiments.tasks import TASKS, agreement, lambada
from graphut.experiments.tasks.files import DataSet
from graphut.experiments.training import GenerationOptions, Run
from graphut.experiments.wording import flag
from tests.experiments.cli.tiny import MODEL
from tests.experiments.tasks.tiny import GENERATED


def test_generate_passes_options_to_the_learner(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(finished_run), "q d x a", "qdxa", "--max-length", "9"]) == 0
    run = Run.open(finished_run)
    options = GenerationOptions(max_length=9)
    said = run.learner.generate(run.model(), run.vocabularies, ["q d x a"] * 2, options)
    assert capsys.readouterr().out == "".join(f"\n{answer}\n" for answer in said)


def test_generate_answers_a_file_line_by_line(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("graphut.experiments.training.generation._BATCH", 2)
    texts = ["q d x a", "b", "c a"]
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{text}\n" for text in texts))
    options = ["--plain", "--max-length", "4"]
    assert main(["generate", str(finished_run), *texts, *options]) == 0
    answers = capsys.readouterr().out
    assert answers.count("\n") == 3
    assert main(["generate", str(finished_run), *options[:1], *texts, *options[1:]]) == 0
    assert capsys.readouterr().out == answers  # options may stand anywhere
    assert main(["generate", str(finished_run), "--input", str(path), *options]) == 0
    assert capsys.readouterr().out == answers
    monkeypatch.setattr("sys.stdin", StringIO(path.read_text()))
    assert main(["generate", str(finished_run), "--input", "-", *options]) == 0
    assert capsys.readouterr().out == answers
    path.write_text(" \nq d x a\n\nb\nc a\n\n")
    assert main(["generate", str(finished_run), "--input", str(path), *options]) == 0
    first, *others = answers.splitlines()
    assert capsys.readouterr().out.splitlines() == ["", first, "", *others, ""]


def test_generate_splits_words_into_characters(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--max-length", "9", "--device", "cpu"]
    said = []
    for argv in (["h e l l o w o r l d", "a"], ["hello world", "a", "--characters"]):
        said.append([])
        for more in ([], ["--plain"]):
            assert main(["generate", str(finished_run), *argv, *options, *more]) == 0
            said[-1].append(capsys.readouterr().out)
    (table, plain), (found_table, found_plain) = said
    assert found_plain == plain.replace(" ", "")
    first, second = table.removeprefix("\n").split("\n\n")
    one, two = found_plain.splitlines()
    assert found_table == f"\n{first}\ntext    {one}\n\n{second}text    {two}\n"
    path = tmp_path / "texts.txt"
    path.write_text("hello world\n\na")
    argv = ["--input", str(path), "--characters", "--plain"]
    assert main(["generate", str(finished_run), *argv, *options]) == 0
    assert capsys.readouterr().out == f"{one}\n\n{two}\n"


@pytest.mark.parametrize("argv", [[], ["a", "--input", "texts.txt"]])
def test_generate_takes_texts_in_one_way(
    finished_run: Path, argv: list[str], refusal: Callable[..., str]
) -> None:
    said = refusal("generate", str(finished_run), *argv)
    assert "give either texts, or a file of them" in said


def test_generate_draws_by_the_seed(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def drawn(seed: int) -> str:
        argv = ["--temperature", "5", "--max-length", "30", "--seed", str(seed)]
        assert main(["generate", str(finished_run), "q d x a", *argv]) == 0
        return capsys.readouterr().out

    assert drawn(1) == drawn(1) != drawn(2)


def test_generate_reads_a_program_as_python_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--epoch-size", "8", "--held-out", "2", "--epochs", "1", "--d-model", "8"]
    assert main(["train", "lte-control", "--out", str(tmp_path / "run"), *sizes]) == 0
    capsys.readouterr()
    program = "f=5\nprint((6 if f>4 else 3))"
    assert main(["generate", str(tmp_path / "run"), program, "--max-length", "3"]) == 0
    shown = capsys.readouterr().out.splitlines()[1].split()
    assert "".join(shown) == "input" + program.replace("\n", "⏎").replace(" ", "␣")


def test_generate_says_that_an_output_has_no_end(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(finished_run), "q d x a", "--max-length", "1"]) == 0
    output, _, notice = capsys.readouterr().out.splitlines()[3:]
    assert "<eos>" not in output
    assert notice == "cut off at the max_length of 1"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["q D"], "unknown symbol 'D'; known are: a b c"),
        (["hello world"], "as in 'h e l l o' (graphut generate --characters does so)"),
        ([" "], ""),
        (["a", "--beam-size", "0"], "0"),
        (["a", "--temperature", "-1"], "-1"),
        (["a", "--top-p", "2"], "2"),
        (["a", "--max-length", "-3"], "-3"),
    ],
)
def test_generate_refuses_bad_input_in_one_line(
    finished_run: Path, argv: list[str], message: str, refusal: Callable[..., str]
) -> None:
    assert message in refusal("generate", str(finished_run), *argv)


SENTENCES = ["VBZ\tthe key", "VBP\tthe keys", "VBZ\tthe key to the cabinets", "VBP\tthe dogs"]
PASSAGES = [f"he saw a {animal} , and fed the {animal}" for animal in ("cat", "dog", "owl", "ox")]


@pytest.fixture
def text_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
    monkeypatch.setattr(agreement, "_CHECKSUMS", {})
    monkeypatch.setattr(lambada, "LAMBADA", DataSet("from nowhere", dict.fromkeys(passages)))
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
def test_generate_after_train_and_eval_of_texts(
    task: str,
    options: str,
    prompt: str,
    kept: str,
    text_files: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(text_files)
    said = run(["train", task, "--out", "run", *shlex.split(options), *MODEL], capsys)
    assert "epoch 1: loss" in said and "\ntext " in said
    first = read_json(text_files / "run" / "evaluation-test.json")
    assert first[kept] and 0 < first["flops_share"] <= 1
    assert run(["eval", "run", "--device", "cpu"], capsys).startswith("test, ")
    assert read_json(text_files / "run" / "evaluation-test.json") == first
    argv = ["generate", "run", prompt, "--max-length", "5", "--device", "cpu"]
    for more in ([], ["--temperature", "0.9", "--top-p", "0.8"], ["--beam-size", "2"]):
        table, text = run([*argv, *more], capsys).strip("\n").split("\n\n", 1)
        assert text.startswith(prompt.replace("lighthouse", "<unk>").replace("unicorn", "<unk>"))
        assert table.startswith("text ") and "\nsteps " in table


def test_eval_of_a_text_of_ones_own(
    text_files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(text_files)
    options = shlex.split("--data text.txt --window 16 --epoch-size 8")
    run(["train", "char-lm", "--out", "run", *options, *MODEL], capsys)
    # The test set is the last twentieth of the file, which need not be there.
    text = (text_files / "text.txt").read_text()
    (text_files / "own.txt").write_text(text[len(text) * 19 // 20 :])
    said = run(["eval", "run", "--device", "cpu"], capsys)
    (text_files / "text.txt").unlink()
    found = run(["eval", "run", "--data", "own.txt", "--device", "cpu"], capsys)
    assert found == said.replace("test, ", "own.txt, ")


def test_generate_names_an_unknown_character(
    text_files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(text_files)
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
def test_train_writes_nothing_after_a_mistake(
    options: str,
    message: str,
    text_files: Path,
    refusal: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(text_files)
    window = ["--window", "16"] if "topology" in options else []
    assert message in refusal("train", *shlex.split(options), "--out", "run", *window)
    assert not (text_files / "run").exists()


SIZES = {
    "epoch_size": 8,
    "train_size": 8,
    "held_out": 4,
    "mean_length": 3,
    "train_length": 4,
    "test_length": 6,
    "length": 2,
    "longest": 10,
}


@pytest.mark.parametrize("name", GENERATED)
def test_generate_after_train_and_eval_of_every_task(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind: Any = TASKS[name]
    options = [
        text
        for field in fields(kind)
        if field.name in SIZES
        for text in (flag(field.name), str(SIZES[field.name]))
    ]
    folder = str(tmp_path)
    assert main(["train", name, "--out", folder, *options, *MODEL]) == 0
    run = Run.open(folder)
    given = read_options([name, "--config", f"{folder}/options.yaml", "--out", "x"])
    assert {key: given.get(key) for key in run.options} == run.options
    sets = run.task().test_sets
    capsys.readouterr()
    assert main(["eval", folder, "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == list(sets)
    text = run.vocabularies["source"].write(sets["test"][0][0])
    assert main(["generate", folder, text, "--device", "cpu"]) == 0
    assert capsys.readouterr().out.lstrip().startswith("input ")


def test_generate_refuses_to_split_what_a_task_splits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "pairs.tsv"
    words = ("to be", "or not", "not to be", "be or to", "to not", "be to")
    data.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    argv = ["--data", str(data), "--characters", "--out", str(tmp_path / "run"), *MODEL]
    assert main(["train", "pairs", *argv]) == 0
    capsys.readouterr()
    argv = ["generate", str(tmp_path / "run"), "not to be", "--max-length", "4", "--device", "cpu"]
    assert main(argv) == 0
    assert "input   n o t ␣ t o ␣ b e\n" in capsys.readouterr().out
    assert main([*argv, "--plain"]) == 0
    assert "␣" not in capsys.readouterr().out
    assert main([*argv, "--characters"]) == 2
    assert "the task pairs reads texts as such" in capsys.readouterr().err
