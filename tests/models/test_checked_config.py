from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from graphut.models.checked_config import CheckedConfig, option
from tests.models.cases import small

FLOAT = "a number from -1e+30 to 1e+30"


@dataclass(frozen=True, kw_only=True)
class Shape(CheckedConfig):
    size: int = option(3, "edge, in cm")
    share: float = option(0.5, "of the whole")
    hollow: bool = option(False, "without a core")
    name: str = option("cube", "of the shape")
    colour: Literal["red", "blue"] = option("red", "of the outside")

    def _check_values(self) -> None:
        self._check("size", self.size > 0, "positive")


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("size", 1.5, "an integer"),
        ("size", True, "an integer"),
        ("size", 0, "positive"),
        ("share", float("nan"), FLOAT),
        ("share", "all", FLOAT),
        ("share", 1e308, FLOAT),
        ("share", 10**40, FLOAT),
        ("share", True, FLOAT),
        ("hollow", 1, "True or False"),
        ("name", None, "text"),
        ("colour", "green", "one of 'red', 'blue'"),
    ],
)
def test_checked_config_quotes_a_wrong_value(name: str, value: Any, wanted: str) -> None:
    message = re.escape(f"{name} must be {wanted}; got {value!r}")
    with pytest.raises(ValueError, match=f"^{message}$"):
        Shape(**{name: value})


def test_checked_config_cuts_a_long_value() -> None:
    values: dict[str, Any] = {"size": [10**400], "share": 10**400, "name": ["x"] * 10**5}
    for name, value in values.items():
        with pytest.raises(ValueError, match=rf"^{name} must be .{{,160}}$"):
            Shape(**{name: value})


@pytest.mark.parametrize("value", [1, 0.5, np.float64(0.5)])
def test_checked_config_takes_whole_numbers_as_floats(value: float) -> None:
    assert small(halting_bias=value).halting_bias == value


def test_checked_config_converts_integers_of_numpy() -> None:
    size = Shape(size=np.int64(4)).size  # type: ignore[arg-type]
    assert size == 4 and type(size) is int
    with pytest.raises(ValueError, match="size must be positive; got 0"):
        Shape(size=np.int64(0))  # type: ignore[arg-type]
