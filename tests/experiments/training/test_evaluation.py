from __future__ import annotations

from pathlib import Path

import pytest

from graphut import __version__
from graphut._files import read_checked_json
from graphut.experiments.training.evaluation import save_evaluation, score_batches
from graphut.experiments.training.learners.pairs import PairLearner


def test_save_evaluation_writes_metrics_and_details(tmp_path: Path) -> None:
    found = PairLearner.evaluation(0.5, 0.75, 1.0, 2.0)
    save_evaluation(tmp_path, "exactly-400", 2, found, {"by_source_length": [{"from": 1}]})
    fields = {
        "graphut": __version__,
        "set": "exactly-400",
        "examples": 2,
        "sequence_accuracy": 0.5,
        "token_accuracy": 0.75,
        "encoder_steps": 1.0,
        "decoder_steps": 2.0,
        "by_source_length": [{"from": 1}],
    }
    assert read_checked_json(tmp_path / "evaluation-exactly-400.json") == (fields, True)


def test_score_batches_needs_examples() -> None:
    with pytest.raises(ValueError, match="there are no words to evaluate on"):
        score_batches(len, [], 2, len, "words")
