from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphut.models.positions import draw_positions

lengths = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(torch.tensor)


@given(lengths, st.integers(0, 30), st.booleans(), st.integers(0, 1000))
def test_positions_rise_and_stay_within_the_room(
    lengths: torch.Tensor, room: int, spread: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    drawn = draw_positions(lengths, room, spread=spread)
    assert drawn.shape == (len(lengths), int(lengths.max()) + 1) and drawn.dtype == torch.int64
    for row, length in zip(drawn, lengths.tolist(), strict=True):
        own, after = row[: length + 1], row[length:]
        assert int(own[0]) >= 0 and int(own[-1]) <= length + room
        assert bool((own.diff() >= 1).all()) and bool((after.diff() == 1).all())
        if not spread:
            assert bool((own.diff() == 1).all())


def test_every_offset_is_as_likely() -> None:
    torch.manual_seed(0)
    first = draw_positions(torch.full((4000,), 3), 3, spread=False)[:, 0]
    assert all(900 < first.tolist().count(offset) < 1100 for offset in range(4))


def test_a_subset_is_as_likely_as_its_width_start_and_gaps_say() -> None:
    # 2 of 0..3, in ranges that are 2 to 4 wide.
    torch.manual_seed(0)
    drawn = draw_positions(torch.ones(30_000, dtype=torch.int64), 2, spread=True)
    counts = Counter(map(tuple, drawn.tolist()))
    expected: Counter[tuple[int, ...]] = Counter()
    for width in (2, 3, 4):
        often = 30_000 * math.log((width + 1) / width) / math.log(5 / 2)
        for start in range(4 - width + 1):
            subsets = list(combinations(range(start, start + width), 2))
            for subset in subsets:
                chance = 0.5 / (5 - width) + (0.5 if start == 0 else 0.0)
                expected[subset] += often * chance / len(subsets)
    assert counts.keys() == expected.keys()
    assert all(counts[s] == pytest.approx(expected[s], rel=0.1) for s in expected)


def test_the_last_of_a_wide_range_is_reached() -> None:
    torch.manual_seed(0)
    drawn = draw_positions(torch.full((500,), 41), 360, spread=True)
    assert int(drawn.max()) > 395 and int(drawn.min()) < 5
    assert drawn.diff(dim=1).max() > 40  # far apart
    assert int((drawn[:, -1] - drawn[:, 0]).min()) < 60  # and close together


def test_without_room_nothing_moves() -> None:
    for spread in (False, True):
        drawn = draw_positions(torch.tensor([3, 1]), 0, spread=spread)
        assert drawn.tolist() == [[0, 1, 2, 3]] * 2
