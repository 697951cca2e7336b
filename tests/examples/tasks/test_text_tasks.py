"""Sequence and text tasks in examples/tasks train for an epoch, and are evaluated."""

import shlex
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from graphut.experiments.cli import main
from graphut.experiments.tasks import TASKS

FOLDER = Path(__file__).parents[3] / "examples" / "tasks"
MODEL = "--d-model 8 --num-heads 2 --d-hidden 8 --max-steps 2 --epochs 1 --device cpu"
SMALL = "--epoch-size 8 --held-out 4"

STORY = """1 Mary went to the hall.
2 John went to the garden.
3 Where is Mary? \thall\t1
4 Where is John? \tgarden\t2
"""
VERBS = "VBZ\tthe key\nVBP\tthe keys\nVBZ\tthe key to the cabinets\nVBP\tthe dogs\n"
CORPORA = "commoncrawl.de-en europarl-v7.de-en news-commentary-v9.de-en newstest2013 newstest2014"
FILES = {
    **{
        f"en-valid/qa{n}_{part}.txt": STORY * 2
        for n, part in product((1, 2), ("train", "valid", "test"))
    },
    "numpred.val": VERBS * 4,
    **{f"numpred.test.{n}": VERBS.replace("\n", f"{' one' * n}\n") for n in range(1, 6)},
    "lambada_development_plain_text.txt": "the key to the door is the key\n" * 9,
    "lambada_test_plain_text.txt": "the door is the door\n" * 3,
    "length_split/tasks_train_length.txt": "IN: jump OUT: I_JUMP\nIN: walk OUT: I_WALK\n"
    "IN: run twice OUT: I_RUN I_RUN\n",
    "length_split/tasks_test_length.txt": f"IN: run thrice OUT:{' I_RUN' * 24}\n",
    **{f"{name}.{x}": f"one {x}\ntwo {x}\n" for name, x in product(CORPORA.split(), ("en", "de"))},
    "test_d20s.tsv": "7\t( ( ( [MAX 2 ) 7 ) ] )\n",
    "test_d20a.tsv": "2\t( ( ( [MIN 2 ) [MAX 7 1 ] ) ] )\n",
}
DATA = "--data ."


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files under the names of the published ones, in the current folder."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)


def word_of(name: str) -> str:
    return str(FOLDER / name)


@pytest.mark.parametrize(
    ("name", "options", "sets", "asked"),
    [
        ("lte.py:program", f"{SMALL} --length 2", "test hardest", "print((12+7))"),
        ("scan.py", f"{DATA} --split length --held-out 1", "test", "run twice"),
        ("listops.py", f"{DATA} --longest 9 --train-size 8 --held-out 4",
         "test official-d20s official-d20a", "[MAX 2 7]"),
        ("listops.py:tree", f"{DATA} --longest 9 --train-size 8 --held-out 4 --preset waking",
         "test official-d20s official-d20a", ""),
        ("wmt14.py", f"{DATA} --corpus full --subwords 260 --max-length 60", "test", "one"),
        ("agreement.py", f"{DATA} --split small --held-out 1", "test", "the key"),
        ("lambada.py", f"{DATA} --held-out 4", "test", "the key to the"),
        ("babi.py", f"{DATA} --tasks 1,2", "test qa1 qa2", ""),
    ],
)  # fmt: skip
def test_tasks_are_trained_and_evaluated(
    name: str, options: str, sets: str, asked: str, capsys: Any
) -> None:
    argv = ["train", word_of(name), "--out", "run", *shlex.split(f"{options} {MODEL}")]
    assert main(argv) == 0
    trained = capsys.readouterr().out
    assert main(["eval", "run", "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == sets.split()
    assert lines[0] in trained
    length = ["--max-length", "4"] if TASKS[word_of(name)].generates else []
    assert not asked or main(["generate", "run", asked, *length]) == 0


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("j=91\nfor x in range(3):j+=(71 if 90>6 else 79)\nprint(j)", "304"),
        ("print((3*(4-6)))", "-6"),
    ],
)
def test_lte_answers_are_the_outputs_of_programs(text: str, answer: str) -> None:
    kind: Any = TASKS[word_of("lte.py:program")]
    assert kind.answer(text) == answer
    for source, target in kind(held_out=20, length=2).test:
        letters = kind().source_vocabulary
        assert kind.answer(letters.write(source)) == letters.write(target)


def test_listops_trees_have_the_values_of_their_lists() -> None:
    [tree] = TASKS[word_of("listops.py:tree")](data=".").load("official-d20a")
    assert (tree.nodes.tolist(), tree.labels.tolist()) == ([10, 2, 11, 7, 1], [2, -1, -1, -1, -1])
    assert tree.depth is not None and tree.depth.tolist() == [2, 0, 1, 0, 0]
    assert tree.edges.tolist() == [[1, 2, 3, 4, 0, 1, 2, 3, 4], [0, 0, 2, 2, 0, 1, 2, 3, 4]]
