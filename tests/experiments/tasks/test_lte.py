import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.tasks import Pair, PairTask
from graphut.experiments.tasks.lte import (
    LteAddition,
    LteControl,
    LteCopy,
    LteProgram,
    Operation,
    run_program,
    write_program,
)
from graphut.experiments.tasks.vocabulary import Characters
from tests.experiments.tasks.tiny import tiny
from tests.helpers import refuses

ANSWERS = {"lte-copy": "120", "lte-double": "120120", "lte-reverse": "021"}
PROGRAMS = ["lte-program", "lte-control", "lte-addition"]


def run_python(program: str) -> str:
    printed = StringIO()
    with redirect_stdout(printed):
        exec(program, {})
    return printed.getvalue().removesuffix("\n")


def text(task: Any, pair: Pair) -> tuple[str, str]:
    vocabulary = Characters(task.source_vocabulary.symbols)
    return vocabulary.write(pair[0]), vocabulary.write(pair[1])


def parts(task: PairTask) -> list[list[Pair]]:
    """Return training, validation and test pairs."""
    tests = [pair for pairs in task.test_sets.values() for pair in pairs]
    return [task.train(0, 0) + task.train(1, 1), task.validation, tests]


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_task_has_the_output_of_python(name: str) -> None:
    task: Any = tiny(name)
    assert (task.length, task.nesting) == (5, 2)  # table 6 of arXiv 1807.03819
    for pairs in parts(task):
        for program, output in (text(task, pair) for pair in pairs):
            assert run_python(program) == output


@pytest.mark.parametrize("length", [1, 5, 12])
def test_program_task_with_digit_places(length: int, tmp_path: Path) -> None:
    plain, placed = (LteProgram(length=length, digit_places=by_place) for by_place in (False, True))
    for (source, target), (digits, same_target) in zip(plain.test, placed.test, strict=True):
        program = plain.source_vocabulary.write(source)
        assert placed.source_vocabulary.write(digits) == program and same_target == target
        symbols = placed.source_vocabulary.readable(digits)
        for number in re.finditer("[0-9]+", program):
            places = [int(symbol[1:]) for symbol in symbols[slice(*number.span())]]
            assert places == [*range(len(number[0]))][::-1]
    for name, vocabulary in placed.vocabularies.items():
        vocabulary.save(tmp_path / name)
        loaded = placed.vocabulary_kind.load(tmp_path / name)
        assert loaded.read("a=30") == vocabulary.read("a=30")
        assert loaded.write(loaded.read("a=30")) == "a=30"


@pytest.mark.parametrize("name", [*PROGRAMS, *ANSWERS])
def test_learning_to_execute_has_no_source_in_two_parts(name: str) -> None:
    for length in (2, 5):
        sources = [{tuple(s) for s, _ in part} for part in parts(tiny(name, length=length))]
        assert len(set().union(*sources)) == sum(map(len, sources))


def test_learning_to_execute_mixes_lengths_and_nestings() -> None:
    copy = LteCopy(length=7, held_out=300)
    for pairs in (copy.train(0, 0), copy.validation, copy.test):
        assert {len(source) for source, _ in pairs} == set(range(1, 8))
    assert {len(source) for source, _ in copy.test_sets["hardest"]} == {7}
    task = LteAddition(nesting=3, held_out=100)
    for name, nestings in (("test", {1, 2, 3}), ("hardest", {3})):
        sources = [text(task, pair)[0] for pair in task.test_sets[name]]
        assert {source.count("+") for source in sources} == nestings


def test_learning_to_execute_refuses_too_few_sources() -> None:
    class OneSource(LteCopy):
        def source(self, random: object, *, hardest: bool = False) -> str:
            return "4"

    refuses("too few sources of length 1: choose a larger length", OneSource(length=1).train, 0, 0)
    refuses(r"nesting must be at most 10.*got 11", LteProgram, nesting=11)


@pytest.mark.parametrize("name", ANSWERS)
def test_memory_task_answers_every_source(name: str) -> None:
    task: Any = tiny(name)
    assert task.length == 55  # table 5 of arXiv 1807.03819
    assert task.answer("120") == ANSWERS[name]
    vocabulary = task.source_vocabulary
    for source, target in task.test_sets["test"] + task.test_sets["hardest"]:
        assert "".join(vocabulary.decode(target)) == task.answer("".join(vocabulary.decode(source)))


@given(
    seed=st.integers(0, 2**32),
    operations=st.sampled_from(
        [kind.operations for kind in (LteProgram, LteControl, LteAddition)]
        + [(operation,) for operation in LteProgram.operations]
    ),
    length=st.integers(1, 6),
    nesting=st.integers(1, 10),
)
def test_run_program_returns_the_output_of_python(
    seed: int, operations: Sequence[Operation], length: int, nesting: int
) -> None:
    program = write_program(Random(seed), operations, length, nesting)
    assert run_program(program) == run_python(program)


def test_write_program_uses_every_operation_of_the_paper() -> None:
    programs = " ".join(write_program(Random(s), LteProgram.operations, 5, 1) for s in range(200))
    for sign in ("+", "-", "*", "=", " if ", "<", ">", "for x in range(", "+=", "-="):
        assert sign in programs


def test_write_program_operands_are_uniform() -> None:
    numbers = [
        int(number)
        for seed in range(2000)
        for number in write_program(Random(seed), LteAddition.operations, 1, 1)[7:-2].split("+")
    ]
    counts = [numbers.count(value) for value in range(1, 11)]
    assert sum(counts) == 4000
    assert max(abs(count - 400) for count in counts) < 5 * 400**0.5
