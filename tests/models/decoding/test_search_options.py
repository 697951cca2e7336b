from __future__ import annotations

import math
from typing import Any

import pytest

from graphut.models.decoding.search_options import SearchOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 0}, "max_length must be an integer from 1, got 0"),
        ({"beam_size": 0}, "beam_size must be an integer from 1, got 0"),
        ({"beam_size": 2.0}, "beam_size must be an integer from 1, got 2.0"),
        ({"length_penalty": -0.5}, "length_penalty must be 0 or more, got -0.5"),
        ({"length_penalty": math.nan}, "length_penalty must be 0 or more, got nan"),
        ({"length_penalty": math.inf}, "length_penalty must be 0 or more, got inf"),
        ({"temperature": 0}, "temperature must be finite and positive, got 0; omit it"),
        ({"temperature": math.nan}, "temperature must be finite and positive, got nan"),
        ({"temperature": math.inf}, "temperature must be finite and positive, got inf"),
        ({"top_p": 0.0}, r"top_p must lie in \(0, 1\], got 0.0"),
        ({"top_p": 1.1}, r"top_p must lie in \(0, 1\], got 1.1"),
        ({"beam_size": 2, "top_p": 0.5}, "beam_size=2 cannot be combined with sampling"),
        ({"beam_size": 3, "temperature": 1.0}, "beam_size=3 cannot be combined with sampling"),
    ],
    ids=str,
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SearchOptions(**options)


def test_a_temperature_or_a_share_means_sampling() -> None:
    assert SearchOptions(temperature=0.5).samples and SearchOptions(top_p=0.5).samples
    assert not SearchOptions(beam_size=4).samples
