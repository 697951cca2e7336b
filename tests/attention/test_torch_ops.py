from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphut._dgl import dgl
from graphut.attention import EdgeLayout, as_layout, edge_attention
from graphut.topology import Topology
from tests.attention.naive import inputs
from tests.helpers import assert_same, gradients
from tests.topology.brute import batches, topologies


def agrees(layout: EdgeLayout, frontier: Tensor | None = None, value_feats: int = 3) -> None:
    tensors = inputs(layout, None if frontier is None else frontier.numel(), value_feats)
    options: dict[str, Any] = {"frontier": frontier, "allow_zero_in_degree": True}
    found, expected = (
        edge_attention(layout, *tensors, backend=name, **options) for name in ("torch", "dense")
    )
    assert_same([found], [expected])
    assert_same(gradients([found], tensors), gradients([expected], tensors))


@given(topologies, batches, st.data())
def test_tile_attention_of_any_topology_and_frontier(
    topology: Topology, lengths: list[int], data: st.DataObject
) -> None:
    layout = topology.layout(lengths)
    rows = data.draw(st.none() | st.sets(st.integers(0, layout.num_dst - 1)).map(sorted))
    agrees(layout, None if rows is None else torch.tensor(rows, dtype=torch.int64))


@pytest.mark.parametrize("sizes", [[3, 0], [0, 2], [2, 0, 0, 3, 0]])
def test_tile_attention_of_graphs_without_nodes_in_a_batch(sizes: list[int]) -> None:
    pairs = [torch.cartesian_prod(torch.arange(n), torch.arange(n)).long() for n in sizes]
    graphs = [dgl.graph((*ends.T,), num_nodes=n) for ends, n in zip(pairs, sizes, strict=True)]
    agrees(as_layout(dgl.batch(graphs)))
