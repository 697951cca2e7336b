from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")

from graphut.attention.triton.csr import CSREdges, by_destination, by_source, cut_long
from tests.attention.naive import GRAPHS
from tests.helpers import Pairs, pairs_of


def edges_of(found: CSREdges) -> dict[int, tuple[int, int]]:
    """Node and neighbour by edge id."""
    node = torch.repeat_interleave(found.indptr.diff())
    ids = torch.arange(node.numel()) if found.ids is None else found.ids
    ends = zip(node.tolist(), found.neighbours.tolist(), strict=True)
    return dict(zip(ids.tolist(), ends, strict=True))


def by_id(pairs: Pairs) -> dict[int, tuple[int, int]]:
    return dict(enumerate(pairs))


@pytest.mark.parametrize("graph", GRAPHS)
def test_by_source_and_by_destination_hold_every_edge(graph: str) -> None:
    layout = GRAPHS[graph]
    pairs = pairs_of(layout)
    transposed = layout.cached(by_source, 9)
    assert edges_of(transposed) == by_id(pairs)
    assert transposed.num_nodes == layout.num_src
    assert edges_of(layout.cached(by_destination, 9)) == by_id([(j, i) for i, j in pairs])


def test_by_source_is_made_once_for_each_split() -> None:
    layout = GRAPHS["hubs"]
    assert layout.cached(by_source, 3) is layout.cached(by_source, 3)
    assert layout.cached(by_source, 3).pieces.owner.numel() > 0
    assert layout.cached(by_source, 99).pieces.owner.numel() == 0


def test_cut_long_cuts_only_long_rows() -> None:
    pieces = cut_long(torch.tensor([0, 3, 7, 7, 14]), 3)
    assert pieces.rows.tolist() == [1, 3]
    assert pieces.cuts.tolist() == [0, 2, 5]
    assert pieces.owner.tolist() == [1, 1, 3, 3, 3]
    assert pieces.start.tolist() == [3, 6, 7, 10, 13]
