import pytest

from graphut.experiments.training.evaluation import score_batches


def test_score_batches_needs_examples() -> None:
    with pytest.raises(ValueError, match="there are no examples to evaluate on"):
        score_batches(len, [], 2, len)
