from __future__ import annotations

import torch

from graphut.topology import Ancestors, Causal, Tree, Window, from_parents


def test_tree_of_one_child_is_a_window_and_its_ancestors_are_causal() -> None:
    assert torch.equal(Tree(1).mask(9), Window(1).mask(9))
    assert torch.equal(Ancestors(1).mask(9), Causal().mask(9))


def test_tree_of_more_children_than_tokens() -> None:
    assert Tree(10**12).mask(5)[0].all() and Tree(10**12).num_edges(5) == 13
    assert Ancestors(10**12).num_edges(5) == 9


def test_tree_and_ancestors_equal_from_parents() -> None:
    parents = [-1, *((i - 1) // 3 for i in range(1, 40))]
    assert torch.equal(Ancestors(3).mask(40), from_parents(parents, ancestors=True).mask(40))
    assert torch.equal(Tree(3).mask(40), from_parents(parents).mask(40))


def test_tree_lists_children_and_not_more() -> None:
    rows, _ = Tree(2000).in_edges(torch.arange(3000), *torch.full((2, 3000), 3000))
    assert len(rows) == 3 * 3000 - 1  # a parent each, of which that of the root is dropped later
