from __future__ import annotations

from graphut.experiments.tables import plain_table


def test_plain_table_with_a_short_row() -> None:
    table = plain_table(
        ["who", "ms", "MiB"], [["a", "1", "22.5"], ["longer", "not installed here"]]
    )
    assert table.splitlines() == [
        "who     ms   MiB",
        "a        1  22.5",
        "longer  not installed here",
    ]
