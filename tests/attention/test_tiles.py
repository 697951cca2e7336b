from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphut._dgl import dgl
from graphut.attention import EdgeLayout, IntervalLayout, as_layout, edge_attention, tiles
from graphut.attention.tiles import find_tiles, make_buckets
from graphut.topology import Causal, Complete, Topology, Window
from tests.attention.naive import GRAPHS, inputs
from tests.helpers import assert_same, gradients
from tests.topology.brute import Back, batches, topologies

INTERVALS = [name for name, layout in GRAPHS.items() if isinstance(layout, IntervalLayout)]


def agrees(layout: EdgeLayout, frontier: Tensor | None = None, value_feats: int = 3) -> None:
    tensors = inputs(layout, None if frontier is None else frontier.numel(), value_feats)
    options: dict[str, Any] = {"frontier": frontier, "allow_zero_in_degree": True}
    found, expected = (
        edge_attention(layout, *tensors, backend=name, **options) for name in ("torch", "dense")
    )
    assert_same([found], [expected])
    assert_same(gradients([found], tensors), gradients([expected], tensors))


@pytest.fixture(params=[0, 128], ids=["exact", "padded"])
def padded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of one size together, or of similar sizes."""
    monkeypatch.setattr(tiles, "_PADDED", request.param)


def test_find_tiles_are_sentences_or_stretches_of_long_ones() -> None:
    found = find_tiles(Complete().layout([3, 1, 2]))
    assert [x.tolist() for x in found] == [[0, 3, 4, 6], [0, 3, 4], [3, 4, 6]]
    cuts, low, high = find_tiles(Window(5).layout([1000, 20]))
    assert len(low) == 9 and (cuts.diff() * (high - low)).sum() < 0.15 * 1000**2


def test_make_buckets_pads_tiles_of_similar_size() -> None:
    buckets = make_buckets(Complete().layout([7, 30, 1, 8, 28, 8]))
    assert [part.shape for part in buckets.parts] == [(1, 1, 1), (3, 8, 8), (2, 30, 30)]
    some = make_buckets(Causal().layout([7, 8]), torch.tensor([1, 2, 8]))
    [part] = some.parts
    assert (part.shape, part.is_causal) == ((2, 2, 8), False)
    assert some.rows is not None and some.rows.tolist() == [0, 1, 2, 2]
    assert some.place is not None and some.place.tolist() == [0, 1, 2]
    assert part.mask is not None and part.mask.sum(-1)[:, 0].tolist() == [[2, 3], [2, 2]]


@pytest.mark.parametrize(
    ("layout", "causal"), [(Complete().layout([4, 4]), False), (Causal().layout([4, 4]), True)]
)
def test_make_buckets_of_equal_sentences_needs_neither_mask_nor_copies(
    layout: EdgeLayout, causal: bool
) -> None:
    buckets = make_buckets(layout)
    [part] = buckets.parts
    assert (part.shape, part.mask, part.is_causal) == ((2, 4, 4), None, causal)
    assert (buckets.rows, buckets.sources, buckets.place) == (None, None, None)


@pytest.mark.usefixtures("padded")
@given(topologies, batches, st.data())
def test_tile_attention_of_any_topology_and_frontier(
    topology: Topology, lengths: list[int], data: st.DataObject
) -> None:
    layout = topology.layout(lengths)
    rows = data.draw(st.none() | st.sets(st.integers(0, layout.num_dst - 1)).map(sorted))
    agrees(layout, None if rows is None else torch.tensor(rows, dtype=torch.int64))


@pytest.mark.parametrize("length", [127, 128, 129, 257])
def test_tile_attention_at_the_ends_of_stretches(length: int) -> None:
    agrees(Window(3).layout([length, 1, 300]))
    agrees(Back(1).layout([length, 3]))


@pytest.mark.parametrize("sizes", [[3, 0], [0, 2], [2, 0, 0, 3, 0]])
def test_tile_attention_of_graphs_without_nodes_in_a_batch(sizes: list[int]) -> None:
    agrees(as_layout(dgl.batch([complete_graph(n) for n in sizes])))


def complete_graph(nodes: int) -> Any:
    ends = torch.arange(nodes)
    return dgl.graph((ends.repeat(nodes), ends.repeat_interleave(nodes)), num_nodes=nodes)
