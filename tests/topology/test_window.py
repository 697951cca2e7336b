from __future__ import annotations

from itertools import product

import pytest
import torch

from graphut.attention import IntervalLayout
from graphut.topology import Causal, Complete, Dilated, Window
from graphut.topology.window import capped_sum, count_pairs


@pytest.mark.parametrize(("n", "radius"), [(1, 0), (7, 0), (7, 2), (63, 8), (100, 99)])
def test_window_number_of_edges(n: int, radius: int) -> None:
    assert Window(radius).layout([n]).num_edges == n * (2 * radius + 1) - radius * (radius + 1)


def test_window_beyond_the_sentence_is_complete() -> None:
    assert torch.equal(Window(10**12).mask(5), Complete().mask(5))


def test_window_over_a_short_source_leaves_rows_empty() -> None:
    assert Window(1).layout([5], [2]).in_degrees.tolist() == [2, 2, 1, 0, 0]


def test_window_layout_is_two_integers_a_node() -> None:
    layout = (Window(1000) & Causal()).layout([10**6])
    assert isinstance(layout, IntervalLayout)
    assert layout.num_edges == 1001 * 10**6 - 1000 * 1001 // 2


@pytest.mark.parametrize(("n", "radius", "dilation"), [(7, 2, 3), (63, 3, 5), (100, 1, 99)])
def test_dilated_number_of_edges_where_the_pattern_fits(n: int, radius: int, dilation: int) -> None:
    expected = n * (2 * radius + 1) - dilation * radius * (radius + 1)
    assert Dilated(radius, dilation).num_edges(n) == expected


def test_dilated_without_gaps_is_a_window() -> None:
    assert torch.equal(Dilated(3, 1).mask(9), Window(3).mask(9))


def test_dilated_in_a_short_sentence_sees_itself() -> None:
    assert torch.equal(Dilated(10**12, 10**12).mask(5), torch.eye(5, dtype=torch.bool))


def test_capped_sum_equals_the_sum_term_by_term() -> None:
    for n, cap in product(range(8), range(10)):
        assert capped_sum(n, cap) == sum(min(x, cap) for x in range(n))


def test_count_pairs_equals_the_count_one_by_one() -> None:
    for short, more, radius in product(range(6), range(6), range(12)):
        pairs = product(range(short), range(short + more))
        assert count_pairs(short, short + more, radius) == sum(
            abs(i - j) <= radius for i, j in pairs
        )


def test_complete_has_every_pair() -> None:
    assert Complete().mask(4).all()
    assert Complete().mask(2, 5).all() and Complete().mask(5, 2).all()
    assert Complete().layout([3, 5]).num_edges == 9 + 25


def test_causal_sees_sources_up_to_the_destination() -> None:
    assert torch.equal(Causal().mask(6), torch.ones(6, 6, dtype=torch.bool).tril())
    assert Causal().layout([3, 5]).num_edges == 6 + 15


def test_causal_compares_positions_when_the_sides_differ() -> None:
    assert torch.equal(Causal().mask(4, 2), Causal().mask(4)[:, :2])
    assert torch.equal(Causal().mask(2, 4), Causal().mask(4)[:2])
