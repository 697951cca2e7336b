from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.tasks.held_out import hold_out

WORDS = st.lists(st.text("ab", max_size=4), min_size=1, unique=True)


@given(WORDS, st.data())
def test_nothing_is_lost_and_the_order_is_no_matter(words: list[str], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(words) - 1))
    rest, held_out = hold_out(words, count, str.encode)
    assert len(held_out) == count
    assert sorted(rest + held_out) == sorted(words)
    assert hold_out(words[::-1], count, str.encode) == (rest, held_out)


def test_not_all_can_be_held_out() -> None:
    with pytest.raises(ValueError, match="held_out must be less than 2, got 2"):
        hold_out(["a", "b"], 2, str.encode)
