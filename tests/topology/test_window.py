from __future__ import annotations

import pytest
import torch

from graphut.attention import IntervalLayout
from graphut.topology import Causal, Complete, Window


@pytest.mark.parametrize(("n", "radius"), [(1, 0), (7, 0), (7, 2), (63, 8), (100, 99)])
def test_number_of_edges(n: int, radius: int) -> None:
    assert Window(radius).layout([n]).num_edges == n * (2 * radius + 1) - radius * (radius + 1)


def test_a_radius_beyond_the_sentence_is_complete() -> None:
    assert torch.equal(Window(10**12).mask(5), Complete().mask(5))


def test_a_source_too_short_leaves_the_last_destinations_without_edges() -> None:
    assert Window(1).layout([5], [2]).in_degrees.tolist() == [2, 2, 1, 0, 0]


def test_memory_is_two_integers_a_node() -> None:
    layout = (Window(1000) & Causal()).layout([10**6])
    assert isinstance(layout, IntervalLayout)
    assert layout.num_edges == 1001 * 10**6 - 1000 * 1001 // 2


def test_a_negative_radius_is_an_error() -> None:
    with pytest.raises(ValueError, match="window: radius must not be negative, got -1"):
        Window(-1)
