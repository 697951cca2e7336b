from __future__ import annotations

from typing import Any

import pytest

from graphut.experiments.bench.options import AttentionOptions, ModelOptions, parse_shape


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topology": "causal"}, "topology must be a tuple; got 'causal'"),
        ({"backends": ("torch", "x")}, r"backends must be one of 'dgl', .*; got \('torch', 'x'\)"),
        ({"nodes": 2.5}, "nodes must be an integer; got 2.5"),
    ],
)
def test_attention_options_check_tuples_and_missing_values(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        AttentionOptions(**{"nodes": 3, **options})
    with pytest.raises(ValueError, match=r"dim must be at least 1; got \(8, 0\)"):
        ModelOptions(dim=(8, 0))
