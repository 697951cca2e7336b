from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.tasks.splits import hold_out, random_windows, strided_windows

WORDS = st.lists(st.text("ab", max_size=4), min_size=1, unique=True)


@given(WORDS, st.data())
def test_hold_out_loses_nothing_and_the_order_is_no_matter(
    words: list[str], data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, len(words) - 1))
    rest, held_out = hold_out(words, count, str.encode)
    assert len(held_out) == count
    assert sorted(rest + held_out) == sorted(words)
    assert hold_out(words[::-1], count, str.encode) == (rest, held_out)


def test_hold_out_refuses_to_hold_out_all() -> None:
    with pytest.raises(ValueError, match="held_out must be less than 2, got 2"):
        hold_out(["a", "b"], 2, str.encode)


@given(st.integers(1, 60), st.integers(1, 20))
def test_strided_windows_count_every_token_once_after_half_a_window(size: int, length: int) -> None:
    counted = []
    for text in strided_windows(np.arange(size), length):
        start = text.tokens[0]
        assert text.tokens == list(range(start, start + len(text.tokens)))
        assert len(text.tokens) <= length
        for place in text.tokens[text.context :]:
            assert place - start >= min(place, length // 2)
            counted.append(place)
    assert counted == list(range(size))


def test_random_windows_are_drawn_from_everywhere_and_anew_in_each_epoch() -> None:
    epochs = [random_windows(np.arange(20), 5, 400, seed=0, epoch=epoch) for epoch in range(2)]
    assert epochs[0] != epochs[1]
    assert epochs[0] != random_windows(np.arange(20), 5, 400, seed=1, epoch=0)
    starts = [text.tokens[0] for text in epochs[0]]
    assert [starts.count(start) for start in range(16)] == pytest.approx([25] * 16, abs=15)
