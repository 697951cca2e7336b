from typing import Any

from graphut.experiments.training import TrainingConfig
from tests.helpers import refuses


def test_training_config_quotes_a_value_out_of_range() -> None:
    wrong: list[tuple[str, Any]] = [("epochs", 0), ("learning_rate", 0.0), ("clip_norm", -1.0)]
    wrong += [("seed", -1), ("seed", 2**63), ("ema", 1.0), ("ema", -0.1), ("choose_by", "best")]
    wrong += [("label_smoothing", 1.0), ("target_accuracy", 0.0), ("target_accuracy", 1.5)]
    wrong += [("ponder_wait", 20)]  # as long as patience
    for name, value in wrong:
        refuses(f"{name} must be .*; got {value!r}", TrainingConfig, **{name: value})


def test_training_config_does_not_wait_where_the_last_model_is_kept() -> None:
    words = "ponder_wait must be 0 if choose_by is 'last'; got 2"
    refuses(words, TrainingConfig, choose_by="last", ponder_wait=2)
