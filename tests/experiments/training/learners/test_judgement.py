from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphut.experiments.tasks import Pair
from graphut.experiments.training import Judgement, PairEvaluation, judge, summarize
from graphut.experiments.training.learners.judgement import answer


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
    # A longer target beside it makes room for outputs that go on.
    pairs = [([2], [5, 6, 7]), ([3], [4] * 9)]
    [found, _] = judge(answers({(2,): output, (3,): []}), pairs)
    result = summarize([found])
    assert (result.sequence_accuracy, result.token_accuracy) == (float(tokens == 1), tokens)


def test_an_empty_target() -> None:
    result = summarize(judge(answers({(2,): []}), [([2], [])]))
    assert (result.sequence_accuracy, result.token_accuracy) == (1.0, 1.0)


class Answers:
    """Answers from a table; a source of `n` tokens takes `n` steps a token."""

    def __init__(self, table: dict[tuple[int, ...], list[int]]) -> None:
        self.table = table
        self.batches: list[int] = []

    def generate(self, sources: list[list[int]], *, max_length: int, **options: Any) -> list[Any]:
        self.batches.append(len(sources))
        self.options = options
        return [
            SimpleNamespace(
                tokens=(tokens := self.table[tuple(source)][:max_length]),
                steps=[1] * (len(tokens) + 1),
                source_steps=[len(source)] * len(source),
            )
            for source in sources
        ]


def answers(table: dict[tuple[int, ...], list[int]]) -> Any:
    return Answers(table)


PAIRS: list[Pair] = [([2, 3, 4], [7, 7]), ([2], [8]), ([3], [9, 9])]
TABLE = {(2, 3, 4): [7, 7], (2,): [8], (3,): [9, 8]}


def test_summarize() -> None:
    result = summarize(judge(answers(TABLE), PAIRS))
    assert result == PairEvaluation(2 / 3, 7 / 8, (3 * 3 + 1 + 1) / 5, 1.0)


def test_judge() -> None:
    assert judge(answers(TABLE), PAIRS) == [
        Judgement(3, 2, True, 3, 3, 9, 3),
        Judgement(1, 1, True, 2, 2, 1, 2),
        Judgement(1, 2, False, 2, 3, 1, 3),
    ]


def test_answers_come_in_order_and_the_shortest_are_decoded_first() -> None:
    model = answers(TABLE)
    found = answer(model, PAIRS, batch_size=2, beam_size=4)
    assert [result.tokens for result in found] == [[7, 7], [8], [9, 8]]
    assert (model.batches, model.options) == ([2, 1], {"beam_size": 4})


def test_an_output_that_goes_on_after_the_longest_target_is_wrong() -> None:
    [found] = judge(answers({(2,): [7, 7, 7, 7]}), [([2], [7, 7])])
    assert (found.right, found.output_length) == (False, 4)


def test_no_pairs() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        judge(answers({}), [])


def test_the_better_one_is_the_greater() -> None:
    first, second = PairEvaluation(0.5, 0.9, 2.0, 2.0), PairEvaluation(0.6, 0.8, 2.0, 2.0)
    assert first < second < PairEvaluation(0.6, 0.9, 1.0, 1.0)
    assert not second < PairEvaluation(0.6, 0.8, 9.0, 9.0)
    assert second.reached(0.6) and not second.reached(0.61)
    assert PairEvaluation.from_dict(second.to_dict()) == second
    assert str(second) == (
        "60.00% of sequences and 80.00% of tokens right; "
        "mean steps 2.00 in the encoder, 2.00 in the decoder"
    )
