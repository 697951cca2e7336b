from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphut._dgl import dgl
from graphut.attention import EdgeLayout, IntervalLayout, as_layout, edge_attention, tiles
from graphut.attention.tiles import find_tiles
from graphut.topology import Causal, Complete, Topology, Window
from tests.attention.naive import GRAPHS, inputs
from tests.helpers import assert_same, gradients
from tests.topology.brute import Back, batches, topologies

Calls = list[tuple[int, int, bool]]
INTERVALS = [name for name, layout in GRAPHS.items() if isinstance(layout, IntervalLayout)]


def agrees(layout: EdgeLayout, frontier: Tensor | None = None, value_feats: int = 3) -> None:
    tensors = inputs(layout, None if frontier is None else frontier.numel(), value_feats)
    options: dict[str, Any] = {"frontier": frontier, "allow_zero_in_degree": True}
    found, expected = (
        edge_attention(layout, *tensors, backend=name, **options) for name in ("torch", "dense")
    )
    assert_same([found], [expected])
    assert_same(gradients([found], tensors), gradients([expected], tensors))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """`(rows, sources, masked)` of each call of torch's attention, no tile being too small."""
    calls = []
    kernel = tiles.scaled_dot_product_attention

    def watched(query: Tensor, key: Tensor, *args: Any, **options: Any) -> Tensor:
        masked = options.get("attn_mask") is not None
        calls.append((query.shape[0] * query.shape[2], key.shape[2], masked))
        return kernel(query, key, *args, **options)

    monkeypatch.setattr(tiles, "scaled_dot_product_attention", watched)
    monkeypatch.setattr(tiles, "_OWN_CALL", 0)
    return calls


def test_find_tiles_makes_a_tile_of_each_sentence() -> None:
    found = find_tiles(Complete().layout([3, 1, 2]))
    assert found.cuts.tolist() == [0, 3, 4, 6]
    assert (found.lo, found.hi) == ([0, 3, 4], [3, 4, 6])
    assert found.whole == [True] * 3
    assert found.partition


def test_find_tiles_tells_patterns_apart() -> None:
    assert find_tiles(Causal().layout([3, 1])).causal == [True, True]
    assert find_tiles(Causal().layout([3, 1])).whole == [False, True]
    window = find_tiles(Window(1).layout([4, 2]))
    assert (window.whole, window.causal) == ([False, True], [False, False])
    shifted = find_tiles(Back(1).layout([3]))
    assert (shifted.whole, shifted.causal) == ([False], [False])


def test_find_tiles_partition_has_no_overlaps_or_gaps() -> None:
    assert find_tiles(Complete().layout([2, 1], [3, 4])).partition
    assert not find_tiles(Back(1).layout([3, 2])).partition
    assert not find_tiles(Causal().layout([2, 1], [3, 4])).partition


def test_tile_attention_does_sentences_alike_in_one_call_without_a_mask(calls: Calls) -> None:
    for topology in (Complete(), Causal()):
        agrees(topology.layout([4, 4, 4]))
    agrees(Complete().layout([4, 4]), torch.tensor([0, 3, 5, 6]))
    assert calls == [(12, 4, False), (12, 4, False), (4, 4, False)]


def test_tile_attention_does_other_sentences_in_one_call_each(calls: Calls) -> None:
    agrees(Complete().layout([3, 2]))
    agrees(Causal().layout([3, 2]))
    agrees(Window(1).layout([4, 2]))
    assert calls == [(3, 3, False), (2, 2, False)] * 2 + [(4, 4, True), (2, 2, False)]


def test_tile_attention_leaves_out_sentences_without_active_rows(calls: Calls) -> None:
    agrees(Complete().layout([3, 5, 2]), torch.tensor([1, 8, 9]))
    assert calls == [(1, 3, False), (2, 2, False)]


def test_tile_attention_cuts_a_narrow_window_into_stretches(calls: Calls) -> None:
    agrees(Window(5).layout([1000, 20]))
    assert len(calls) == 9
    assert sum(rows * sources for rows, sources, _ in calls) < 0.15 * 1000**2


@pytest.mark.parametrize("length", [127, 128, 129, 257])
def test_tile_attention_at_the_ends_of_stretches(length: int) -> None:
    agrees(Window(3).layout([length, 1, 300]))


@pytest.mark.parametrize("own_call", [0, 10**9], ids=["one-by-one", "buckets"])
@given(topologies, batches, st.data())
def test_tile_attention_of_any_topology_and_frontier(
    own_call: int, topology: Topology, lengths: list[int], data: st.DataObject
) -> None:
    layout = topology.layout(lengths)
    rows = data.draw(st.none() | st.sets(st.integers(0, layout.num_dst - 1)).map(sorted))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "_OWN_CALL", own_call)
        agrees(layout, None if rows is None else torch.tensor(rows, dtype=torch.int64))


@pytest.mark.parametrize("value_feats", [3, 5])
@pytest.mark.parametrize("own_call", [0, 10**9], ids=["one-by-one", "buckets"])
@pytest.mark.parametrize("graph", INTERVALS)
def test_tile_attention_in_every_way(
    graph: str, own_call: int, value_feats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "_OWN_CALL", own_call)
    layout = GRAPHS[graph]
    for frontier in (None, torch.tensor([1]), torch.arange(0, layout.num_dst, 2)):
        agrees(layout, frontier, value_feats)


@pytest.mark.parametrize("sizes", [[3, 0], [0, 2], [2, 0, 0, 3, 0]])
def test_tile_attention_of_graphs_without_nodes_in_a_batch(sizes: list[int]) -> None:
    agrees(as_layout(dgl.batch([complete_graph(n) for n in sizes])))


def complete_graph(nodes: int) -> Any:
    ends = torch.arange(nodes)
    return dgl.graph((ends.repeat(nodes), ends.repeat_interleave(nodes)), num_nodes=nodes)
