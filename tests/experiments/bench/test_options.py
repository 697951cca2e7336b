from typing import Any

import pytest

from graphut.experiments.bench.options import AttentionOptions, ModelOptions, parse_shape


def test_parse_shape() -> None:
    assert (parse_shape("64x10-60"), parse_shape("8x400")) == ((64, 10, 60), (8, 400, 400))
    for shape in ("", "8", "8x", "8y3", "8x3-", "8x3-4-5", "-1x3", "0x3"):
        with pytest.raises(ValueError, match=f"^'{shape}' is not a shape such as 64x10-60"):
            parse_shape(shape)
    for lengths in ("0-2", "3-2"):
        with pytest.raises(ValueError, match=f"with 1 <= LOW <= HIGH, got '{lengths}'"):
            parse_shape(f"1x{lengths}")


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
