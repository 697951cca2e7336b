from __future__ import annotations

from typing import Any

import pytest
import torch

from graphut.attention import IntervalLayout
from graphut.topology import Global, Star, Virtual, parse, statistics


def test_global_ignores_order_and_repetition() -> None:
    assert Global(5, 0, 5) == Global(0, 5)
    assert Global(5, 0).spec() == "global:0,5"


def test_global_drops_tokens_beyond_the_end() -> None:
    assert torch.equal(Global(1, 10**12).mask(3), Global(1).mask(3))
    assert Global(9).layout([3]).num_edges == 0


def test_global_tokens_are_on_both_sides_of_a_cross_graph() -> None:
    assert Global(0).mask(2, 3).int().tolist() == [[1, 1, 1], [1, 0, 0]]


@pytest.mark.parametrize("tokens", [(), (-1,), (0, -3)])
def test_global_refuses_negative_positions_and_none(tokens: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match="needs at least one position, all of them at least 0; got"
    ):
        Global(*tokens)


@pytest.mark.parametrize("token", [1.0, "0", True, (0, 1)])
def test_global_refuses_what_is_no_integer(token: Any) -> None:
    with pytest.raises(TypeError, match="global: tokens must be an integer, got"):
        Global(0, token)


def test_last_with_a_window_of_nothing_lets_only_the_question_look_around() -> None:
    question = parse("window:0|last")
    assert question.mask(3).int().tolist() == [[1, 0, 0], [0, 1, 0], [1, 1, 1]]
    assert not question.stable
    assert question.layout([3, 1, 2]).in_degrees.tolist() == [1, 1, 3, 1, 1, 2]


def test_star_and_virtual_number_of_edges_and_nodes() -> None:
    assert Star().num_edges(3) == 16 and Star().num_edges(10**12) == 5 * 10**12 + 1
    assert Virtual(3).num_edges(10**12) == 6 * 10**12
    assert Star().num_nodes(7) == 8 and Virtual(3).num_nodes(7) == 10


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
