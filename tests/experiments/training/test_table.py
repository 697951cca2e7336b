from __future__ import annotations

import pytest

from graphut.experiments.training.table import steps_table


def test_steps_stand_under_their_tokens() -> None:
    table = steps_table("input", ["long", "b", "c"], [1, 22, 333])
    assert table == "input   long b  c\nsteps   1    22 333"


@pytest.mark.parametrize(
    ("width", "rows"),
    [
        (14, ["output  aa b", "steps   1  2", "output  cc d", "steps   10 4"]),
        (15, ["output  aa b cc", "steps   1  2 10", "output  d", "steps   4"]),
    ],
)
def test_rows_are_broken_at_the_width(width: int, rows: list[str]) -> None:
    table = steps_table("output", ["aa", "b", "cc", "d"], [1, 2, 10, 4], width)
    assert table.splitlines() == rows


def test_a_token_wider_than_the_room() -> None:
    rows = steps_table("input", ["a", "x" * 20, "b"], [1, 1, 1], 10).splitlines()
    assert rows[0::2] == ["input   a", "input   " + "x" * 20, "input   b"]
