from __future__ import annotations

import pytest

from graphut.experiments.bench import Sizes


def test_lengths_are_within_bounds_and_always_the_same() -> None:
    lengths = Sizes(200, 3, 5).lengths()
    assert sorted(set(lengths.tolist())) == [3, 4, 5]
    assert lengths.equal(Sizes(200, 3, 5).lengths())


@pytest.mark.parametrize("text", ["", "8", "8x", "x9", "8y3", "8x3-", "8x3-4-5", "-1x3", "8x-3"])
def test_what_is_no_shape_is_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="such as") as raised:
        Sizes.parse(text)
    assert repr(text) in str(raised.value) or "range" in str(raised.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [((0, 1, 2), "a sentence at least, got 0"), ((1, 0, 2), "got 0-2"), ((1, 3, 2), "got 3-2")],
)
def test_impossible_sizes(values: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sizes(*values)
