from typing import Any

import pytest

from graphut.experiments.training import TrainingConfig


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("learning_rate", 0.0),
        ("clip_norm", -1.0),
        ("ponder_wait", 20),  # as long as patience
        ("seed", -1),
        ("seed", 2**63),
        ("ema", 1.0),
        ("ema", -0.1),
        ("label_smoothing", 1.0),
        ("target_accuracy", 0.0),
        ("target_accuracy", 1.5),
        ("choose_by", "best"),
    ],
)
def test_training_config_quotes_a_value_out_of_range(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be .*; got {value!r}"):
        TrainingConfig(**{name: value})


def test_training_config_does_not_wait_where_the_last_model_is_kept() -> None:
    with pytest.raises(ValueError, match="ponder_wait must be 0 if choose_by is 'last'; got 2"):
        TrainingConfig(choose_by="last", ponder_wait=2)
