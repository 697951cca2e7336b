from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphut.attention import CSRLayout, EdgeLayout, IntervalLayout, layout_from_edges

Edges = tuple[int, int, list[tuple[int, int]]]


@st.composite
def multigraphs(draw: st.DrawFn) -> Edges:
    """Number of sources and destinations, and edges `(src, dst)` in any order, some twice."""
    num_src, num_dst = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    edge = st.tuples(st.integers(0, num_src - 1), st.integers(0, num_dst - 1))
    return num_src, num_dst, draw(st.lists(edge, max_size=20))


@st.composite
def runs(draw: st.DrawFn) -> Edges:
    """The same, where every destination's sources are one run, or none."""
    num_src, num_dst = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    edges = []
    for dst in range(num_dst):
        lo, hi = sorted(draw(st.tuples(st.integers(0, num_src), st.integers(0, num_src))))
        edges += [(src, dst) for src in range(lo, hi)]
    return num_src, num_dst, draw(st.permutations(edges))


def layout_of(graph: Edges) -> EdgeLayout:
    num_src, num_dst, edges = graph
    src, dst = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    return layout_from_edges(src, dst, num_src=num_src, num_dst=num_dst)


@given(multigraphs() | runs())
def test_in_edges_come_by_destination_then_source_under_their_own_ids(graph: Edges) -> None:
    num_src, num_dst, edges = graph
    layout = layout_of(graph)
    row, source, edge = layout.in_edges()
    assert list(zip(row.tolist(), source.tolist(), strict=True)) == sorted((d, s) for s, d in edges)
    assert [edges[e] for e in edge.tolist()] == list(
        zip(source.tolist(), row.tolist(), strict=True)
    )
    assert sorted(edge.tolist()) == list(range(len(edges)))
    assert layout.sources().tolist() == source.tolist()
    assert (layout.num_src, layout.num_dst, layout.num_edges) == (num_src, num_dst, len(edges))
    degrees = [sum(d == i for _, d in edges) for i in range(num_dst)]
    assert layout.in_degrees.tolist() == degrees
    assert layout.row_starts.tolist() == [sum(degrees[:i]) for i in range(num_dst + 1)]
    assert layout.has_empty_rows is (0 in degrees)


@given(multigraphs() | runs(), st.data())
def test_in_edges_of_some_rows_are_theirs_alone(graph: Edges, data: st.DataObject) -> None:
    layout = layout_of(graph)
    rows = data.draw(st.lists(st.integers(0, layout.num_dst - 1), unique=True))
    every = list(zip(*(t.tolist() for t in layout.in_edges()), strict=True))
    row, source, edge = layout.in_edges(torch.tensor(rows, dtype=torch.int64))
    assert list(zip(row.tolist(), source.tolist(), edge.tolist(), strict=True)) == [
        (index, s, e) for index, node in enumerate(rows) for r, s, e in every if r == node
    ]


@given(multigraphs() | runs())
def test_layout_from_edges_makes_intervals_where_they_fit(graph: Edges) -> None:
    _, num_dst, edges = graph
    sources = [sorted(s for s, d in edges if d == i) for i in range(num_dst)]
    contiguous = all(run == list(range(run[0], run[0] + len(run))) for run in sources if run)
    assert type(layout_of(graph)) is (IntervalLayout if contiguous else CSRLayout)


@given(multigraphs())
def test_in_edges_that_are_equal_keep_their_order(graph: Edges) -> None:
    row, source, edge = (t.tolist() for t in layout_of(graph).in_edges())
    triples = list(zip(row, source, edge, strict=True))
    assert triples == sorted(triples)


def test_layout_from_edges_in_canonical_order_has_no_ids() -> None:
    src, dst = torch.tensor([0, 1, 0]), torch.tensor([0, 0, 1])
    assert layout_from_edges(src, dst, num_src=2, num_dst=2).edge_ids is None
    assert layout_from_edges(src.flip(0), dst.flip(0), num_src=2, num_dst=2).edge_ids is not None


def test_layout_from_edges_is_one_graph_unless_lengths_are_given() -> None:
    src, dst = torch.tensor([0, 2]), torch.tensor([1, 0])
    one = layout_from_edges(src, dst, num_src=3, num_dst=2)
    assert (one.src_lengths.tolist(), one.dst_lengths.tolist()) == ([3], [2])
    two = layout_from_edges(
        src,
        dst,
        num_src=3,
        num_dst=2,
        src_lengths=torch.tensor([1, 2]),
        dst_lengths=torch.tensor([1, 1]),
    )
    assert (two.src_lengths.tolist(), two.dst_lengths.tolist()) == ([1, 2], [1, 1])


@pytest.mark.parametrize("step", [1, 2])  # intervals, rows
def test_edge_layout_to_copies_to_a_device_once(step: int) -> None:
    src, dst = torch.tensor([0, step, 2]), torch.tensor([1, 1, 0])
    layout = layout_from_edges(src, dst, num_src=3, num_dst=2)
    assert layout.edge_ids is not None
    assert layout.to("cpu") is layout
    moved = layout.to("meta")
    assert type(moved) is type(layout)
    assert moved is not layout
    assert moved.device == torch.device("meta")
    assert moved.edge_ids is not None
    assert moved.edge_ids.device == moved.device
    assert moved.dst_lengths.device == torch.device("cpu")
    assert layout.to(torch.device("meta")) is moved
    assert moved.to("cpu") is layout


@pytest.mark.parametrize(
    ("src", "dst", "words"),
    [
        ([0, 3], [0, 0], "src holds node 3, but there are 3 nodes"),
        ([0, -1], [0, 0], "src holds node -1"),
        ([0, 1], [0, 2], "dst holds node 2, but there are 2 nodes"),
    ],
)
def test_layout_from_edges_refuses_ends_that_are_no_nodes(
    src: list[int], dst: list[int], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        layout_from_edges(torch.tensor(src), torch.tensor(dst), num_src=3, num_dst=2)


@pytest.mark.parametrize(
    ("lo", "hi", "monotone"),
    [
        ([0, 1, 1], [2, 2, 4], True),
        ([1, 0, 2], [2, 0, 4], True),  # the one in the middle has no in-edge
        ([1, 0, 2], [2, 2, 4], False),
        ([0, 0, 0], [3, 2, 3], False),
    ],
)
def test_interval_layout_is_monotone(lo: list[int], hi: list[int], monotone: bool) -> None:
    sizes = {"src_lengths": torch.tensor([4]), "dst_lengths": torch.tensor([3])}
    layout = IntervalLayout(lo=torch.tensor(lo), hi=torch.tensor(hi), num_src=4, **sizes)
    assert layout.is_monotone is monotone
