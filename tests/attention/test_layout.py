from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphut.attention import layout_from_edges
from graphut.attention.layout import CSRLayout, IntervalLayout, seen_by, upload
from graphut.topology import Causal
from tests.gpu_stand_in import gpu_stand_in
from tests.helpers import Pairs, layout_of, multigraphs, refuses

Graph = tuple[Pairs, int, int]


@st.composite
def runs(draw: st.DrawFn) -> Graph:
    """Edges as of `multigraphs`, where every destination's sources are one run, or none."""
    num_src, num_dst = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    edges = []
    for dst in range(num_dst):
        lo, hi = sorted(draw(st.tuples(st.integers(0, num_src), st.integers(0, num_src))))
        edges += [(src, dst) for src in range(lo, hi)]
    return draw(st.permutations(edges)), num_src, num_dst


@given(multigraphs() | runs())
def test_in_edges_come_by_destination_then_source_under_their_own_ids(graph: Graph) -> None:
    edges, num_src, num_dst = graph
    layout = layout_of(*graph)
    row, source, edge = layout.in_edges()
    assert list(zip(row.tolist(), source.tolist(), strict=True)) == sorted((d, s) for s, d in edges)
    assert [edges[e] for e in edge.tolist()] == list(
        zip(source.tolist(), row.tolist(), strict=True)
    )
    assert sorted(edge.tolist()) == list(range(len(edges)))
    triples = list(zip(row.tolist(), source.tolist(), edge.tolist(), strict=True))
    assert triples == sorted(triples)  # equal edges keep their order
    assert layout.sources().tolist() == source.tolist()
    assert (layout.num_src, layout.num_dst, layout.num_edges) == (num_src, num_dst, len(edges))
    degrees = [sum(d == i for _, d in edges) for i in range(num_dst)]
    assert layout.in_degrees.tolist() == degrees
    assert layout.row_starts.tolist() == [sum(degrees[:i]) for i in range(num_dst + 1)]
    assert layout.has_empty_rows is (0 in degrees)


@given(multigraphs() | runs(), st.data())
def test_in_edges_of_some_rows_are_theirs_alone(graph: Graph, data: st.DataObject) -> None:
    layout = layout_of(*graph)
    rows = data.draw(st.lists(st.integers(0, layout.num_dst - 1), unique=True))
    every = list(zip(*(t.tolist() for t in layout.in_edges()), strict=True))
    row, source, edge = layout.in_edges(torch.tensor(rows, dtype=torch.int64))
    assert list(zip(row.tolist(), source.tolist(), edge.tolist(), strict=True)) == [
        (index, s, e) for index, node in enumerate(rows) for r, s, e in every if r == node
    ]


@given(multigraphs() | runs())
def test_layout_from_edges_makes_intervals_where_they_fit(graph: Graph) -> None:
    edges, _, num_dst = graph
    sources = [sorted(s for s, d in edges if d == i) for i in range(num_dst)]
    contiguous = all(run == list(range(run[0], run[0] + len(run))) for run in sources if run)
    assert type(layout_of(*graph)) is (IntervalLayout if contiguous else CSRLayout)


@pytest.mark.parametrize("step", [1, 2])  # intervals, rows
def test_edge_layout_to_copies_to_a_device_once(step: int) -> None:
    src, dst = torch.tensor([0, step, 2]), torch.tensor([1, 1, 0])
    layout = layout_from_edges(src, dst, num_src=3, num_dst=2)
    assert layout.edge_ids is not None
    assert layout.to("cpu") is layout
    moved = layout.to("meta")
    assert type(moved) is type(layout) and moved is not layout and moved.edge_ids is not None
    assert moved.edge_ids.device == moved.device == torch.device("meta")
    assert moved.dst_lengths.device == torch.device("cpu")
    assert layout.to(torch.device("meta")) is moved and moved.to("cpu") is layout
    assert upload([torch.ones(1), layout, moved], "meta")[1:] == [moved, moved]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_upload_sends_all_in_one_piece_without_a_wait() -> None:
    pytest.importorskip("triton", reason="needs triton")
    layout = Causal().layout([2, 3])
    with gpu_stand_in() as gpu:
        given = [torch.tensor([True, False, True]), torch.empty(0), layout, torch.ones(2, 3)]
        flags, nothing, moved, ones = upload(given, "cuda")
        assert (len(gpu.copies), gpu.waits) == (1, [])
        assert upload([layout], "cuda") == [moved] and moved.to("cpu") is layout
        assert len(gpu.copies) == 1
        found = [gpu.host(x) for x in (flags, nothing, ones, moved.lo, moved.hi)]
        expected = [given[0], given[1], given[3], layout.lo, layout.hi]
        assert all(map(torch.equal, found, expected))
        seen = [gpu.host(x).tolist()[:6] for x in moved.cached(seen_by)]
        assert (len(gpu.copies), seen) == (1, [[0, 1, 2, 3, 4, -1], [2, 2, 5, 5, 5, -1]])


EDGES = torch.tensor([0, 1, 1])


def test_layout_from_edges_refuses_what_kernels_would_not_survive() -> None:
    def check(words: str, **changed: Any) -> None:
        given = {"src": EDGES, "dst": EDGES, "num_src": 2, "num_dst": 2, **changed}
        refuses(words, layout_from_edges, **given)

    check(
        r"src must be a 1-D int64 tensor, got tensor\(\[0, 1, 1\], dtype=torch.int32",
        src=EDGES.int(),
    )
    check("dst must be a 1-D int64 tensor", dst=EDGES[None])
    check("src must be a tensor, got list", src=[0, 1, 1])
    check("src refers to node -1, but there are only 2", src=EDGES - 1)
    check("dst refers to node 2, but there are only 2", dst=EDGES + 1)
    check("src has 3 edges, but dst has 1", dst=EDGES[:1])
    check("src_lengths add up to 1, but there are 2 nodes", src_lengths=torch.tensor([1]))
    check(
        "dst_lengths contains -2: a length must not be negative", dst_lengths=torch.tensor([4, -2])
    )
