from __future__ import annotations

import pytest

from graphut.attention import IntervalLayout
from graphut.topology import Star, Virtual, statistics


def test_star_and_virtual_number_of_edges_and_nodes() -> None:
    assert Star().num_edges(3) == 16 and Star().num_edges(10**12) == 5 * 10**12 + 1
    assert Virtual(3).num_edges(10**12) == 6 * 10**12
    assert Star().num_nodes(7) == 8 and Virtual(3).num_nodes(7) == 10


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_star_and_virtual_num_edges_in_closed_form(n: int) -> None:
    for topology in (Star(), Virtual(2)):
        assert topology.num_edges(n) == topology.layout([n]).num_edges


def test_star_in_a_short_sentence_has_fewer_neighbours() -> None:
    assert Star().mask(1).all()
    assert Star().mask(2).all()


def test_star_and_virtual_connect_all_tokens_in_two_steps() -> None:
    for topology in (Star(), Virtual(1)):
        numbers = statistics(topology, 30)
        assert (numbers.diameter, numbers.unreachable) == (2, None)


def test_virtual_layout_is_two_integers_a_node() -> None:
    assert isinstance(Virtual(1).layout([10**6]), IntervalLayout)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_star_and_virtual_causal_leave_the_relay_to_the_last_token(n: int) -> None:
    for topology in (Star().causal(), Virtual(2).causal()):
        mask = topology.mask(n)
        assert mask[:n, n:].sum(1).tolist() == [0] * (n - 1) + [topology.num_nodes(n) - n]
        assert mask[n:, :n].all()


def test_virtual_refuses_no_nodes() -> None:
    with pytest.raises(ValueError, match="virtual: nodes must be at least 1, got 0"):
        Virtual(0)
