from __future__ import annotations

from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.tasks.lte import LteAddition, LteControl, LteProgram
from graphut.experiments.tasks.lte_programs import Operation, write_program


def run_python(program: str) -> str:
    printed = StringIO()
    with redirect_stdout(printed):
        exec(program, {})
    return printed.getvalue().removesuffix("\n")


@given(
    seed=st.integers(0, 2**32),
    operations=st.sampled_from([kind.operations for kind in (LteProgram, LteControl, LteAddition)]),
    length=st.integers(1, 6),
    nesting=st.integers(1, 10),
)
def test_write_program_python_prints_what_is_said(
    seed: int, operations: Sequence[Operation], length: int, nesting: int
) -> None:
    program, output = write_program(Random(seed), operations, length, nesting)
    assert run_python(program) == output


@pytest.mark.parametrize("operation", LteProgram.operations)
def test_write_program_python_prints_what_is_said_of_each_operation(operation: Operation) -> None:
    for seed in range(100):
        program, output = write_program(Random(seed), [operation], 2, 3)
        assert run_python(program) == output


def test_write_program_every_operation_of_the_paper_is_used() -> None:
    programs = [write_program(Random(s), LteProgram.operations, 5, 1)[0] for s in range(200)]
    for sign in ("+", "-", "*", "=", " if ", "<", ">", "for x in range(", "+=", "-="):
        assert any(sign in program for program in programs), sign


def test_write_program_nesting_counts_operations() -> None:
    for seed in range(50):
        program, _ = write_program(Random(seed), LteAddition.operations, 3, 4)
        assert program.count("+") == 4


def test_write_program_operands_are_even_between_1_and_a_power_of_ten() -> None:
    numbers = [
        int(number)
        for seed in range(2000)
        for number in write_program(Random(seed), LteAddition.operations, 1, 1)[0][7:-2].split("+")
    ]
    counts = [numbers.count(value) for value in range(1, 11)]
    assert sum(counts) == 4000
    assert max(abs(count - 400) for count in counts) < 5 * 400**0.5


def test_write_program_no_operation_at_all() -> None:
    with pytest.raises(ValueError, match="nesting must be at least 1, got 0"):
        write_program(Random(0), LteAddition.operations, 3, 0)
