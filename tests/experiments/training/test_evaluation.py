from __future__ import annotations

import pytest

from graphut.experiments.training.evaluation import answer_in_batches, score_batches


def test_score_batches_needs_examples() -> None:
    with pytest.raises(ValueError, match="there are no examples to evaluate on"):
        score_batches(len, [], 2, len)


def test_answer_in_batches_keeps_the_order() -> None:
    batches = []

    def answer(batch: list[str]) -> list[str]:
        batches.append(batch)
        return [word.upper() for word in batch]

    found = answer_in_batches(answer, ["ccc", "a", "bb"], 2, len)
    assert found == [("ccc", "CCC"), ("a", "A"), ("bb", "BB")]
    assert batches == [["a", "bb"], ["ccc"]]
