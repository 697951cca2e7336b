from __future__ import annotations

import pytest

from graphut.experiments.bench.options import parse_shape


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            ["", "8", "8x", "8y3", "8x3-", "8x3-4-5", "-1x3", "0x3"],
            "'{}' is not a shape such as 64x10-60",
        ),
        (["1x0-2"], "lengths must be LOW-HIGH with 1 <= LOW <= HIGH, got '0-2'"),
        (["1x3-2"], "lengths must be LOW-HIGH with 1 <= LOW <= HIGH, got '3-2'"),
    ],
)
def test_parse_shape_refuses_an_impossible_shape(shapes: list[str], message: str) -> None:
    for shape in shapes:
        with pytest.raises(ValueError, match=f"^{message.format(shape)}"):
            parse_shape(shape)
