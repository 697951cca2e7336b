from __future__ import annotations

from typing import Any

import pytest
import torch

from graphut.topology import Global, parse


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
    with pytest.raises(ValueError, match="positions from 0, at least one; got"):
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
