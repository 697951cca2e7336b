from __future__ import annotations

import pytest

from graphut.topology import Global, Star, Virtual, parse, statistics


@pytest.mark.parametrize("tokens", [(), (-1,), (0, -3)])
def test_global_refuses_negative_positions_and_none(tokens: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="needs at least one position, all of them at least 0"):
        Global(*tokens)


def test_last_with_self_loops_connects_only_the_question() -> None:
    question = parse("window:0|last")
    assert question.mask(3).int().tolist() == [[1, 0, 0], [0, 1, 0], [1, 1, 1]]
    assert question.layout([3, 1, 2]).in_degrees.tolist() == [1, 1, 3, 1, 1, 2]


def test_star_and_virtual_connect_all_tokens_in_two_steps() -> None:
    for topology in (Star(), Virtual(1)):
        found = statistics(topology, 30)
        assert (found.diameter, found.unreachable) == (2, None)
