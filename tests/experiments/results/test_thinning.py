from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.results.thinning import MOST_POINTS, rounded, thinned


@given(st.data())
def test_the_points_are_lines_and_not_many(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 300))
    best = data.draw(st.integers(0, count - 1))
    lines = [{"epoch": i + 1, "validation": {"x": i / 8}} for i in range(count)]
    found = thinned(lines, best)
    epochs: list[int] = found["epoch"]
    assert len(epochs) <= MOST_POINTS
    assert len(epochs) >= min(count, MOST_POINTS - 1)
    assert epochs == sorted(set(epochs)) and {1, best + 1, count} <= set(epochs)
    assert found["validation"]["x"] == [(epoch - 1) / 8 for epoch in epochs]


def test_six_digits() -> None:
    value: Any = {"a": [1.23456789, 12345678, True, None], "b": {"c": 1e-9 / 3, "d": "x"}}
    assert rounded(value) == {
        "a": [1.23457, 12345678, True, None],
        "b": {"c": 3.33333e-10, "d": "x"},
    }


def test_epochs_that_differ() -> None:
    with pytest.raises(ValueError, match="do not have the same keys"):
        thinned([{"epoch": 1}, {"epoch": 2, "more": 1}], 0)
