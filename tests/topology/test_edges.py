from __future__ import annotations

from typing import Any

import pytest
import torch

from graphut.topology import Ancestors, Edges, Tree, from_edges, from_mask, from_parents, parse

MASK = torch.tensor([[1, 0, 0], [0, 0, 1], [1, 1, 1]], dtype=torch.bool)


def test_from_mask_in_shorter_and_longer_sentences() -> None:
    topology = from_mask(MASK)
    assert torch.equal(topology.mask(3), MASK)
    assert torch.equal(from_mask(MASK[:, :2]).mask(3, 2), MASK[:, :2])
    assert torch.equal(topology.mask(2), MASK[:2, :2])
    assert torch.equal(topology.mask(5), torch.nn.functional.pad(MASK, (0, 2, 0, 2)))


def test_from_edges_ignores_order_and_repetition() -> None:
    assert from_edges(iter([1]), iter([2])) == Edges(1, 2)  # type: ignore[arg-type]
    assert from_edges([2, 0, 2], [1, 1, 1]) == from_edges(torch.tensor([0, 2]), [1, 1])
    assert from_edges([], []) == parse("edges") and parse("edges").spec() == "edges"


@pytest.mark.parametrize("parent", [1.0, None])
def test_from_parents_refuses_a_parent_that_is_not_an_integer(parent: Any) -> None:
    with pytest.raises(TypeError, match=rf"parents\[1\] is {parent}: a parent must be an integer"):
        from_parents([-1, parent])


def test_from_parents_equals_tree_and_ancestors() -> None:
    parents = [-1, *((i - 1) // 3 for i in range(1, 40))]
    assert torch.equal(Ancestors(3).mask(40), from_parents(parents, ancestors=True).mask(40))
    assert torch.equal(Tree(3).mask(40), from_parents(parents).mask(40))
    forest = from_parents([1, 3, -1, -1, 1], ancestors=True).mask(5)
    assert forest[4].tolist() == [False, True, False, True, True] and forest.sum() == 10


@pytest.mark.parametrize(
    ("parents", "words"),
    [
        ([1, 5], r"parents\[1\] is 5: a parent must be the position of one of the 2 tokens, or -1"),
        ([-2], r"parents\[0\] is -2"),
        ([1, 0], r"parents\[0\] is 1: the ancestors form a cycle"),
        ([0], r"parents\[0\] is 0: the ancestors form a cycle"),
    ],
)
def test_from_parents_refuses_cycles_and_wrong_positions(parents: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        from_parents(parents)


def test_edges_names_bad_values() -> None:
    with pytest.raises(ValueError, match="2 sources but 1 destinations"):
        from_edges([0, 1], [0])
    with pytest.raises(ValueError, match="the last source, 4, has no destination"):
        Edges(0, 1, 4)
    with pytest.raises(ValueError, match="positions must be at least 0, got -1"):
        Edges(0, -1)
    with pytest.raises(TypeError, match=r"edges: ends must be an integer, got 0\.5"):
        from_edges([0.5], [0])  # type: ignore[list-item]


@pytest.mark.parametrize("mask", [MASK.int(), MASK[0], [[True]]])
def test_from_mask_refuses_other_than_bool_matrices(mask: Any) -> None:
    with pytest.raises(
        TypeError, match=r"mask must be a bool tensor of shape \(n_dst, n_src\), got"
    ):
        from_mask(mask)
