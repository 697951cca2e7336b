import torch

from graphut.topology import Edges, from_edges, from_mask, from_parents, parse

MASK = torch.tensor([[1, 0, 0], [0, 0, 1], [1, 1, 1]], dtype=torch.bool)


def test_from_mask_in_shorter_and_longer_sentences() -> None:
    topology = from_mask(MASK)
    assert torch.equal(topology.mask(3), MASK) and topology == from_mask(MASK.tolist())
    assert torch.equal(topology.mask(2), MASK[:2, :2])
    assert torch.equal(topology.mask(5), torch.nn.functional.pad(MASK, (0, 2, 0, 2)))


def test_from_edges_ignores_order_and_repetition() -> None:
    assert from_edges(range(1, 2), [2]) == Edges(1, 2)
    assert from_edges([2, 0, 2], [1, 1, 1]) == from_edges(torch.tensor([0, 2]), [1, 1])
    assert from_edges([], []) == parse("edges") and parse("edges").spec() == "edges"


def test_from_parents_reads_parents_and_children() -> None:
    parents = [-1, 0, 0, 1, -1]
    pairs = {(i, i) for i in range(5)} | {(0, 1), (0, 2), (1, 3)}
    mask = torch.zeros(5, 5, dtype=torch.bool)
    for i, j in pairs:
        mask[i, j] = mask[j, i] = True
    assert torch.equal(from_parents(parents).mask(5), mask)
