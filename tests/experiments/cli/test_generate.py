from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

import graphut
from graphut._files import read_json
from graphut.experiments.cli import main
from tests.experiments.cli.tiny import MODEL

Command = Callable[..., str]


def test_generate_answers_a_file_line_by_line(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    output: Command, refusal: Command, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("graphut.experiments.training.generation._BATCH", 2)
    texts = ["q d x a", "b", "c a"]
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{text}\n" for text in texts))
    command, options = ["generate", finished_run], ["--plain", "--max-length", "4"]
    answers = output(*command, *texts, *options)
    assert answers.count("\n") == 3
    assert output(*command, options[0], *texts, *options[1:]) == answers
    assert output(*command, "--input", path, *options) == answers
    monkeypatch.setattr("sys.stdin", StringIO(path.read_text()))
    assert output(*command, "--input", "-", *options) == answers
    assert main([*map(str, command), *texts, "--plain", "--max-length", "1"]) == 0
    assert capsys.readouterr().err.count("was cut off at the max_length of 1\n") == 3
    path.write_text("b\nq D\n")
    said = refusal(*command, "--input", path)
    assert said.startswith(f"graphut: {path}:2: unknown symbol 'D' (did you mean 'd'?); known are")
    path.write_text("b\n\na\n")
    assert f"{path}:2: '' is empty: a source needs" in refusal(*command, "--input", path)


def test_plain_answers_of_subwords_say_that_they_were_cut_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"{n} to\t{n} be\n" for n in range(30)))
    run = ["--data", f"{tmp_path}/a.tsv", "--out", f"{tmp_path}/run", "--subwords", "260", *MODEL]
    assert main(["train", "pairs", *run]) == 0
    assert main(["generate", f"{tmp_path}/run", "1 to", "--plain", "--max-length", "1"]) == 0
    assert "was cut off at the max_length of 1\n" in capsys.readouterr().err


def test_generate_reads_a_folder_of_save_pretrained(
    finished_run: Path, tmp_path: Path, output: Command, refusal: Command
) -> None:
    model = graphut.load(finished_run)
    model.save_pretrained(tmp_path)
    command = ["q d x a", "--max-length", "4"]
    assert output("generate", tmp_path, *command) == output("generate", finished_run, *command)
    assert "no run.json; graphut generate and predict read its model" in refusal("eval", tmp_path)
    assert "is not a model: it has no config.json" in refusal("generate", tmp_path.parent, "a")
    model.vocabularies = {}
    model.save_pretrained(tmp_path / "other")
    assert "the model has no vocabulary 'source'" in refusal("generate", tmp_path / "other", "a")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["hello world"], "unknown symbol 'hello'; known are: a b"),
        (["--input", "missing"], "there is no missing"),
        (["a", " "], "' ' is empty: a source needs at least one symbol"),
        (["Hello"], "unknown symbol 'H' (did you mean 'h'?)"),
    ],
)
def test_generate_refuses_bad_input_in_one_line(
    finished_run: Path, argv: list[str], message: str, refusal: Command
) -> None:
    assert message in refusal("generate", finished_run, *argv)


def test_generate_after_train_and_eval_of_texts(tmp_path: Path, output: Command) -> None:
    data, run = tmp_path / "text.txt", tmp_path / "run"
    data.write_text("to be, or not to be.\n" * 40)
    options = ["--data", data, "--window", "16", "--epoch-size", "8", *MODEL]
    said = output("train", "char-lm", *options, "--out", run)
    assert "epoch 1: loss" in said and "\ntext " in said
    first = read_json(run / "evaluation-test.json")
    assert 0 < first["flops_share"] <= 1
    assert output("eval", run, "--device", "cpu").startswith("test, ")
    assert read_json(run / "evaluation-test.json") == first
    argv = ["generate", run, "to be\nor ", "--max-length", "5", "--device", "cpu"]
    for more in ([], ["--temperature", "0.9"], ["--beam-size", "2"]):
        table, text = output(*argv, *more).strip("\n").split("\n\n", 1)
        assert text.startswith("to be\nor ")
        assert table.startswith("text ") and "\nsteps " in table
    model = graphut.load(run)
    assert isinstance(model, graphut.UniversalTransformerLM)
    [text] = model.generate(["to be\nor "], max_length=5)
    assert text == output(*argv, "--plain").removesuffix("\n")


def test_generate_after_train_of_subwords(tmp_path: Path, output: Command) -> None:
    data, run = tmp_path / "pairs.tsv", tmp_path / "run"
    words = ("to be", "or not", "not to be", "be or to", "to not", "be to")
    data.write_text("".join(f"{word}\t{word.upper()}\n" for word in words))
    output("train", "pairs", "--data", data, "--subwords", "260", "--out", run, *MODEL)
    model = graphut.load(run)
    assert isinstance(model, graphut.UniversalTransformer)
    assert model.decode(model.encode("über not")) == "über not"  # one vocabulary for both sides
    *table, text, _ = output("generate", run, "über", "--max-length", "4").splitlines()
    assert table[1].split()[:4] == ["input", "▁", "Ã", "¼"]  # an unknown letter as its bytes
    assert text.startswith("text    ")
