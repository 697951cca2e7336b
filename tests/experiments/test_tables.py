from __future__ import annotations

import pytest

from graphut.experiments.tables import mean_cells, plain_table, three_digits


def test_plain_table_with_a_short_row() -> None:
    table = plain_table(
        ["who", "ms", "MiB"], [["a", "1", "22.5"], ["longer", "not installed here"]]
    )
    assert table.splitlines() == [
        "who     ms   MiB",
        "a        1  22.5",
        "longer  not installed here",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (0.5, "0.500"),
        (9.999, "10.0"),
        (99.96, "100"),
        (12345.6, "12346"),
        (3.14e-7, "3.14e-07"),
    ],
)
def test_three_digits(value: float, text: str) -> None:
    assert three_digits(value) == text


def test_mean_cells_leaves_out_what_a_row_does_not_have() -> None:
    rows = [{"steps": 0.5, "work": None}, {"steps": 1.0, "work": 0.25}]
    assert mean_cells(rows, "steps", "work") == [".750 ± .354", ".250"]
    assert mean_cells([], "steps") == [""]
