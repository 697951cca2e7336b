from __future__ import annotations

import pytest

from graphut.experiments.training import Judgement, by_length


def judgement(length: int, right: bool = True) -> Judgement:
    """A target of twice the length, one step a source token, two an output token."""
    size = 2 * length
    return Judgement(
        length, size, right, size + 1 if right else 0, size + 1, length, 2 * (size + 1)
    )


@pytest.mark.parametrize(
    ("longest", "width"), [(1, 1), (20, 1), (21, 2), (40, 2), (41, 5), (400, 20), (1016, 100)]
)
def test_at_most_twenty_rows_that_cover_every_length(longest: int, width: int) -> None:
    rows = by_length([judgement(length) for length in range(1, longest + 1)], "source_length")
    assert len(rows) <= 20
    assert all(row["to"] - row["from"] + 1 == row["examples"] <= width for row in rows)
    assert [row["from"] for row in rows] == [1 + width * index for index in range(len(rows))]
    assert rows[-1]["to"] == longest


def test_a_row_is_about_its_lengths() -> None:
    rows = by_length([judgement(1), judgement(1, right=False), judgement(3)], "source_length")
    assert rows == [
        {
            "from": 1,
            "to": 1,
            "examples": 2,
            "sequence_accuracy": 0.5,
            "token_accuracy": 0.5,
            "encoder_steps": 1.0,
            "decoder_steps": 2.0,
        },
        {
            "from": 3,
            "to": 3,
            "examples": 1,
            "sequence_accuracy": 1.0,
            "token_accuracy": 1.0,
            "encoder_steps": 1.0,
            "decoder_steps": 2.0,
        },
    ]


def test_an_empty_target_is_in_the_first_row() -> None:
    [row] = by_length([Judgement(1, 0, True, 1, 1, 1, 1)], "target_length")
    assert (row["from"], row["to"], row["examples"]) == (0, 0, 1)
