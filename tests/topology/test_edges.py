import torch

from graphut.topology import Edges, Tree, from_edges, from_mask, from_parents, parse

MASK = torch.tensor([[1, 0, 0], [0, 0, 1], [1, 1, 1]], dtype=torch.bool)


def test_from_mask_in_shorter_and_longer_sentences() -> None:
    topology = from_mask(MASK)
    assert torch.equal(topology.mask(3), MASK)
    assert torch.equal(from_mask(MASK[:, :2]).mask(3, 2), MASK[:, :2])
    assert torch.equal(topology.mask(2), MASK[:2, :2])
    assert torch.equal(topology.mask(5), torch.nn.functional.pad(MASK, (0, 2, 0, 2)))


def test_from_edges_ignores_order_and_repetition() -> None:
    assert from_edges(range(1, 2), [2]) == Edges(1, 2)
    assert from_edges([2, 0, 2], [1, 1, 1]) == from_edges(torch.tensor([0, 2]), [1, 1])
    assert from_edges([], []) == parse("edges") and parse("edges").spec() == "edges"


def test_from_parents_equals_tree() -> None:
    parents = [-1, *((i - 1) // 3 for i in range(1, 40))]
    assert torch.equal(Tree(3).mask(40), from_parents(parents).mask(40))
    assert torch.equal(from_parents([-1, -1]).mask(2), torch.eye(2, dtype=torch.bool))
