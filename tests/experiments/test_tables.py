from __future__ import annotations

import pytest

from graphut.experiments.tables import plain_table, three_digits


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
