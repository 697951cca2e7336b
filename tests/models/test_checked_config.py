import re
from typing import Any

import numpy as np
import pytest

from graphut.experiments.tasks import Pairs
from tests.helpers import refuses
from tests.models.cases import small

FLOAT = "a number from -1e+30 to 1e+30"


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("max_steps", 1.5, "an integer"),
        ("max_steps", True, "an integer"),
        ("max_steps", 0, "at least 1"),
        ("halting_bias", float("nan"), FLOAT),
        ("halting_bias", "all", FLOAT),
        ("halting_bias", 1e308, FLOAT),
        ("halting_bias", 10**40, FLOAT),
        ("halting_bias", True, FLOAT),
        ("adaptive", 1, "True or False"),
        ("rule", None, "text"),
        ("norm", "green", "one of 'post', 'pre'"),
    ],
)
def test_checked_config_quotes_a_wrong_value(name: str, value: Any, wanted: str) -> None:
    refuses(f"^{re.escape(f'{name} must be {wanted}; got {value!r}')}$", small, **{name: value})


def test_checked_config_cuts_a_long_value() -> None:
    values: dict[str, Any] = {"max_steps": [10**400], "dropout": 10**400, "rule": ["x"] * 10**5}
    for name, value in values.items():
        refuses(rf"^{name} must be .{{,160}}$", small, **{name: value})


@pytest.mark.parametrize("value", [1, 0.5, np.float64(0.5)])
def test_checked_config_takes_whole_numbers_as_floats(value: float) -> None:
    assert small(halting_bias=value).halting_bias == value


def test_checked_config_converts_integers_of_numpy() -> None:
    assert type(small(max_steps=np.int64(4)).max_steps) is int
    assert type(Pairs("pairs.tsv", subwords=np.int64(300)).subwords) is int  # int | None


def test_checked_config_suggests_the_nearest_name_of_an_unknown_option() -> None:
    refuses(r"Config has no option 'dmodel'; did you mean 'd_model'\?", small, dmodel=3)
    refuses(r"has no option 'zebra'$", small, zebra=3)
