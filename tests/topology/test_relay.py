from __future__ import annotations

import pytest

from graphut.attention import IntervalLayout
from graphut.topology import Star, Virtual, statistics


def test_number_of_edges_and_nodes() -> None:
    assert Star().num_edges(3) == 16 and Star().num_edges(10**12) == 5 * 10**12 + 1
    assert Virtual(3).num_edges(10**12) == 6 * 10**12
    assert Star().num_nodes(7) == 8 and Virtual(3).num_nodes(7) == 10


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_closed_forms_count_the_edges(n: int) -> None:
    for topology in (Star(), Virtual(2)):
        assert topology.num_edges(n) == topology.layout([n]).num_edges


def test_a_short_ring_has_the_neighbours_that_there_are() -> None:
    assert Star().mask(1).all()
    assert Star().mask(2).all()


def test_everyone_hears_of_everyone_in_two_steps() -> None:
    for topology in (Star(), Virtual(1)):
        numbers = statistics(topology, 30)
        assert (numbers.diameter, numbers.deaf) == (2, None)


def test_a_million_tokens_take_two_integers_each() -> None:
    assert isinstance(Virtual(1).layout([10**6]), IntervalLayout)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_causal_leaves_what_hears_of_all_tokens_to_the_last_one(n: int) -> None:
    for topology in (Star().causal(), Virtual(2).causal()):
        mask = topology.mask(n)
        assert mask[:n, n:].sum(1).tolist() == [0] * (n - 1) + [topology.num_nodes(n) - n]
        assert mask[n:, :n].all()


def test_there_is_a_virtual_node() -> None:
    with pytest.raises(ValueError, match="virtual: nodes must be at least 1, got 0"):
        Virtual(0)
