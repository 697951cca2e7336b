import math

import numpy as np

from graphut.models.decoding.search_options import SearchOptions
from tests.helpers import refuses


def test_wrong_options_are_refused() -> None:
    refuses("max_length must be at least 1; got 0", SearchOptions, max_length=0)
    refuses("beam_size must be an integer; got 2.0", SearchOptions, beam_size=2.0)
    refuses("length_penalty must be at least 0; got -0.5", SearchOptions, length_penalty=-0.5)
    refuses(
        "length_penalty must be a number from .*; got nan", SearchOptions, length_penalty=math.nan
    )
    refuses("temperature must be positive; omit it .*; got 0", SearchOptions, temperature=0)
    refuses("temperature must be a number from .*; got inf", SearchOptions, temperature=math.inf)
    refuses(r"top_p must be in \(0, 1\]; got 0.0", SearchOptions, top_p=0.0)
    refuses(r"top_p must be in \(0, 1\]; got 1.1", SearchOptions, top_p=1.1)
    refuses(r"beam_size must be 1 with sampling .*; got 2", SearchOptions, beam_size=2, top_p=0.5)


def test_a_temperature_or_a_share_means_sampling() -> None:
    assert SearchOptions(temperature=np.float32(0.5)).samples and SearchOptions(top_p=0.5).samples
    assert not SearchOptions(beam_size=4).samples
