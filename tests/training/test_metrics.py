from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphut.tasks import Pair
from graphut.training import Evaluation, evaluate
from graphut.training.metrics import accuracies


@pytest.mark.parametrize(
    ("output", "tokens"),
    [
        ([5, 6, 7], 1.0),
        ([5, 6, 8], 3 / 4),
        ([5, 6], 2 / 4),
        ([], 0 / 4),
        ([5, 6, 7, 7], 3 / 4),
        ([6, 5, 7, 7, 7, 7], 1 / 4),
    ],
)
def test_accuracies_of_one_output(output: list[int], tokens: float) -> None:
    assert accuracies([output], [[5, 6, 7]]) == (float(tokens == 1), tokens)


def test_an_empty_target() -> None:
    assert accuracies([[]], [[]]) == (1.0, 1.0)


class Answers:
    """Answers from a table; a source of `n` tokens takes `n` steps a token."""

    def __init__(self, table: dict[tuple[int, ...], list[int]]) -> None:
        self.table = table
        self.batches: list[int] = []

    def generate(self, sources: list[list[int]], *, max_length: int) -> list[Any]:
        self.batches.append(len(sources))
        return [
            SimpleNamespace(
                tokens=(tokens := self.table[tuple(source)][:max_length]),
                steps=[1] * (len(tokens) + 1),
                source_steps=[len(source)] * len(source),
            )
            for source in sources
        ]


def test_evaluate() -> None:
    pairs: list[Pair] = [([2, 3, 4], [7, 7]), ([2], [8]), ([3], [9, 9])]
    model: Any = Answers({(2, 3, 4): [7, 7], (2,): [8], (3,): [9, 8]})
    result = evaluate(model, pairs, max_length=2, batch_size=2)
    assert result == Evaluation(2 / 3, 7 / 8, (3 * 3 + 1 + 1) / 5, 1.0)
    assert model.batches == [2, 1]


def test_an_output_that_goes_on_after_the_longest_target_is_wrong() -> None:
    model: Any = Answers({(2,): [7, 7, 7, 7]})
    assert evaluate(model, [([2], [7, 7])], max_length=2).sequence_accuracy == 0.0


def test_no_pairs() -> None:
    model: Any = Answers({})
    with pytest.raises(ValueError, match="no pairs"):
        evaluate(model, [], max_length=2)


def test_the_better_one_is_the_greater() -> None:
    first, second = Evaluation(0.5, 0.9, 2.0, 2.0), Evaluation(0.6, 0.8, 2.0, 2.0)
    assert first < second < Evaluation(0.6, 0.9, 1.0, 1.0)
    assert str(second) == (
        "60.00% of sequences and 80.00% of tokens right; "
        "mean steps 2.00 in the encoder, 2.00 in the decoder"
    )
