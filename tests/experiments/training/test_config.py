from typing import Any

from graphut.experiments.training import TrainingConfig
from tests.helpers import refuses


def test_training_config_quotes_a_value_out_of_range() -> None:
    wrong: list[tuple[str, Any]] = [("epochs", 0), ("learning_rate", 0.0), ("clip_norm", -1.0)]
    wrong += [("seed", -1), ("seed", 2**63), ("ema", 1.0), ("ema", -0.1), ("choose_by", "best")]
    wrong += [("label_smoothing", 1.0), ("target_accuracy", 0.0), ("target_accuracy", 1.5)]
    for name, value in wrong:
        refuses(f"{name} must be .*; got {value!r}", TrainingConfig, **{name: value})
