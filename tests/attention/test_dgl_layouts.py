import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphut._dgl import dgl
from graphut.attention import EdgeLayout, as_layout
from graphut.nn import (
    AdaptiveRecurrence,
    HaltingUnit,
    HeteroAdaptiveConv,
    MessageAggregation,
    MultiHeadAttention,
    PositionwiseTransition,
    UniversalTransformerStep,
)
from tests.helpers import pairs_of, refuses


def by_torch(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def read(saved: bytes) -> Any:
    if saved.startswith(b"PK"):
        return torch.load(io.BytesIO(saved), weights_only=False)
    return pickle.loads(saved)


WRITES, READS = ("user", "writes", "text"), ("user", "reads", "text")


def lengths(layout: EdgeLayout) -> tuple[list[int], list[int]]:
    return layout.src_lengths.tolist(), layout.dst_lengths.tolist()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=15))
def test_as_layout_reads_any_graph_under_its_own_edge_ids(edges: list[tuple[int, int]]) -> None:
    src, dst = [s for s, _ in edges], [d for _, d in edges]
    graph = dgl.graph((torch.tensor(src).long(), torch.tensor(dst).long()), num_nodes=6)
    row, source, edge = as_layout(graph).in_edges()
    found = graph.find_edges(edge)
    assert [source.tolist(), row.tolist()] == [t.tolist() for t in found]
    assert sorted(edge.tolist()) == list(range(len(edges)))


@pytest.mark.parametrize("formats", ["coo", "csr", "csc", ["csr", "csc"]], ids=str)
@pytest.mark.parametrize("edges", [[(2, 1), (0, 1), (1, 0), (2, 1), (0, 2)], []], ids=len)
def test_as_layout_of_a_graph_restricted_to_a_format(formats: Any, edges: Any) -> None:
    graph = dgl.graph(edges, num_nodes=3)
    found, expected = (as_layout(g).in_edges() for g in (graph.formats(formats), graph))
    for mine, other in zip(found, expected, strict=True):
        assert torch.equal(mine, other)


def test_as_layout_is_kept_until_edges_nodes_or_sentences_change() -> None:
    graph = dgl.graph(([2, 0], [1, 1]))
    layout = as_layout(graph)
    assert as_layout(layout) is layout
    graph.ndata["x"] = torch.zeros(3)
    assert as_layout(graph) is layout and as_layout(graph.local_var()) is layout
    graph.add_edges(1, 0)
    assert pairs_of(as_layout(graph)) == [(2, 1), (0, 1), (1, 0)]
    graph.remove_edges(0)
    assert pairs_of(as_layout(graph)) == [(0, 1), (1, 0)]
    graph.add_nodes(2)
    assert as_layout(graph).num_dst == 5 and lengths(as_layout(graph)) == ([5], [5])
    graph.set_batch_num_nodes(torch.tensor([3, 2]))
    graph.set_batch_num_edges(torch.tensor([2, 0]))
    assert lengths(as_layout(graph)) == ([3, 2], [3, 2])


@pytest.mark.parametrize("save", [pickle.dumps, by_torch])
def test_graphs_and_layouts_that_were_used_can_be_saved(save: Callable[[Any], bytes]) -> None:
    graph = dgl.graph(([2, 0, 1, 1], [1, 1, 0, 2]))
    nothing, feat = len(save(graph)), torch.randn(3, 8)
    step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 16))
    layer = AdaptiveRecurrence(step, HaltingUnit(8))
    messages = MessageAggregation(8, ["max"])
    messages.backend = "dgl"
    out, _ = layer(graph, feat)
    ponder = layer(graph, feat, get_attention=True)[1]
    messages(graph, feat)
    typed, _, _ = HeteroAdaptiveConv(8, 8, (["_N"], [graph.canonical_etypes[0]])).union(
        graph, {"_N": feat}
    )
    assert len(save(graph)) <= nothing + 100  # nothing of ours
    copy, layout, record, types = read(save([graph, as_layout(graph), ponder, typed]))
    for each in (copy, layout):
        assert torch.equal(layer(each, feat)[0], out)
        assert torch.equal(messages(each, feat), messages(graph, feat))
    assert pairs_of(layout) == pairs_of(as_layout(graph)) == pairs_of(types)
    assert torch.equal(types.types.nodes, torch.zeros(3, dtype=torch.int64))
    assert torch.equal(record.steps, ponder.steps) and record.flops == ponder.flops
    assert torch.equal(record.attention.dense(), ponder.attention.dense())


def test_as_layout_tells_edge_types_apart() -> None:
    graph = dgl.heterograph(
        {
            WRITES: (torch.tensor([0]), torch.tensor([1])),
            READS: (torch.tensor([2]), torch.tensor([0])),
        }
    )
    writes = as_layout(graph, "writes")
    assert pairs_of(writes) == [(0, 1)]
    assert (writes.num_src, writes.num_dst) == (3, 2)
    assert pairs_of(as_layout(graph, READS)) == [(2, 0)]
    assert as_layout(graph, WRITES) is writes
    refuses(r"\('reads', 'writes'\): .*as_layout\(graph, 'reads'\)", as_layout, graph)
    no_edge = torch.zeros(2, 0, dtype=torch.int64).unbind()
    both = dgl.heterograph({("a", "r", "b"): no_edge, ("b", "r", "a"): no_edge})
    refuses(r"as_layout\(graph, \('a', 'r', 'b'\)\)", as_layout, both)


def test_as_layout_refuses_a_batch_whose_counts_do_not_add_up() -> None:
    graph = dgl.heterograph({WRITES: (torch.tensor([0, 2]), torch.tensor([1, 0]))})
    graph.set_batch_num_nodes({"user": torch.tensor([1, 2]), "text": torch.tensor([1, 2])})
    refuses("dst_lengths add up to 3, but there are 2 nodes", as_layout, graph)
    graph.set_batch_num_nodes({"user": torch.tensor([1, 2]), "text": torch.tensor([1, 1])})
    assert lengths(as_layout(graph)) == ([1, 2], [1, 1])
