import math
from typing import Any

import numpy as np
import pytest

from graphut.models.decoding.search_options import SearchOptions
from tests.helpers import refuses


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 0}, "max_length must be at least 1; got 0"),
        ({"beam_size": 2.0}, "beam_size must be an integer; got 2.0"),
        ({"length_penalty": -0.5}, "length_penalty must be at least 0; got -0.5"),
        ({"length_penalty": math.nan}, "length_penalty must be a number from .*; got nan"),
        ({"temperature": 0}, "temperature must be positive; omit it .*; got 0"),
        ({"temperature": math.inf}, "temperature must be a number from .*; got inf"),
        ({"top_p": 0.0}, r"top_p must be in \(0, 1\]; got 0.0"),
        ({"top_p": 1.1}, r"top_p must be in \(0, 1\]; got 1.1"),
        ({"beam_size": 2, "top_p": 0.5}, r"beam_size must be 1 with sampling .*; got 2"),
    ],
    ids=str,
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    refuses(message, SearchOptions, **options)


def test_a_temperature_or_a_share_means_sampling() -> None:
    assert SearchOptions(temperature=np.float32(0.5)).samples and SearchOptions(top_p=0.5).samples
    assert not SearchOptions(beam_size=4).samples
