import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from graphut._files import read_json
from graphut.experiments.cli import main
from graphut.experiments.report import RunRecord
from graphut.experiments.tasks import TASKS, Sort
from graphut.experiments.training import Run, evaluate
from tests.experiments.cli.tiny import TINY
from tests.experiments.tasks.tiny_translation import Numbers
from tests.helpers import read_rows

Command = Callable[..., str]


def test_eval_of_the_test_set(copied_run: Path, output: Command) -> None:
    kept = copied_run / "evaluation-test.json"
    before = kept.read_bytes()  # from the end of training
    kept.unlink()
    found = output("eval", copied_run, "--device", "cpu")
    run = Run.open(copied_run)
    wanted = evaluate(run.model(), run.task(), run.task().test)
    assert found == f"test, 4 sequences: {wanted}\n"
    assert kept.read_bytes() == before


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a task with several test sets."""
    folder = tmp_path_factory.mktemp("runs") / "long"
    options = TINY[TINY.index("--epoch-size") :]
    argv = ["--train-length", "3", "--test-length", "6", "--out", str(folder), *options]
    assert main(["train", "algorithmic-addition", *argv]) == 0
    return folder


def test_eval_of_one_or_all_test_sets(long_run: Path, output: Command, refusal: Command) -> None:
    said = refusal("eval", long_run, "--set", "tset")
    assert "has no test set 'tset'; it has: test, up-to-6, exactly-6" in said
    assert "there is no missing" in refusal("eval", long_run, "--data", "missing")
    assert main(["eval", str(long_run), "--evaluation-rule", "", "--set", "test"]) == 0
    names = ["test", "up-to-6", "exactly-6"]
    lines = output("eval", long_run, "--device", "cpu").splitlines()
    assert [line.partition(",")[0] for line in lines] == names
    records = [read_json(long_run / f"evaluation-{name}.json") for name in names]
    assert [record["set"] for record in records] == names
    [row] = records[2]["by_source_length"]
    assert (row["from"], row["to"], row["examples"]) == (6, 6, 4)
    [line] = output("eval", long_run, "--set", "exactly-6", "--device", "cpu").splitlines()
    assert line == lines[2]


def test_eval_and_train_append_to_a_table_of_results(long_run: Path, tmp_path: Path) -> None:
    rows = tmp_path / "runs.csv"
    files = ["--results", str(rows)]
    assert main(["eval", str(long_run), "--device", "cpu", *files]) == 0
    pairs = tmp_path / "own.tsv"
    pairs.write_text("1 2\t2 1\n")
    assert main(["eval", str(long_run), "--data", str(pairs), *files]) == 0
    argv = ["train", "sort", *TINY, "--seed", "3", "--norm", "pre", "--out", str(tmp_path / "run")]
    assert main([*argv, *files]) == 0

    table = read_rows(rows)
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


def test_eval_of_other_pairs_needs_no_data_of_the_task(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: Command
) -> None:
    path = tmp_path / "other.tsv"
    path.write_text("b a\ta b\nc\tc\n")
    before = sorted(finished_run.iterdir())
    monkeypatch.setattr(Sort, "vocabularies", property(lambda self: pytest.fail("read")))
    found = output("eval", finished_run, "--data", path, "--device", "cpu")
    assert found.startswith(f"{path}, 2 sequences: ")
    assert sorted(finished_run.iterdir()) == before


def test_eval_by_beam_search_records_its_options(copied_run: Path, output: Command) -> None:
    folder = copied_run
    found = output("eval", folder, "--beam-size", "3", "--device", "cpu")
    run = Run.open(folder)
    wanted, details = run.learner(run.model()).evaluate_in_detail(run.task().test, beam_size=3)
    assert found == f"test, 4 sequences: {wanted}\n"
    record = read_json(folder / "evaluation-test,beam_size=3.json")
    assert record["options"] == {"beam_size": 3}
    assert read_json(folder / "evaluation-test.json")["options"] == {}  # from the end of training
    assert [*RunRecord.of(run).evaluations] == ["test", "test --beam-size 3"]
    assert record["by_source_length"] == details["by_source_length"]
    assert 0 < record["flops_share"] <= 1


TRANSLATION = shlex.split(
    "train numbers-of-tests --subwords 270 --epochs 1 --batch-size 5 --d-model 8 --num-heads 2 "
    "--d-hidden 8 --max-steps 2 --max-length 60 --device cpu --out run"
)


@pytest.fixture
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "numbers-of-tests", Numbers)
    monkeypatch.chdir(tmp_path)


def test_commands_on_translation_need_no_data_after_training(
    in_empty_folder: None, monkeypatch: pytest.MonkeyPatch, output: Command
) -> None:
    assert main(TRANSLATION) == 0
    record = read_json("run/evaluation-test.json")
    assert 0 <= record["bleu"] <= 100 and record["examples"] == 2
    assert "tok:13a" in record["bleu_signature"]
    monkeypatch.setattr(Numbers, "read_sentences", None)  # not called again
    Path("own.tsv").write_text("a man\tein Mann\n")
    search = ["--beam-size", "2", "--length-penalty", "1"]
    found = output("eval", "run", "--data", "own.tsv", *search)
    assert "own.tsv, 1 sentence: BLEU " in found
    lines = output("generate", "run", "one two", "--max-length", "5").splitlines()
    assert any(line.startswith("text") for line in lines)
    pieces = Run.open("run").vocabularies["source"]
    assert lines[1].split()[1:] == pieces.readable(pieces.read("one two"))
