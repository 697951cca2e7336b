from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given

from graphut.attention import EdgeLayout, edge_attention
from graphut.attention.native import interval_parts
from graphut.attention.native.attention import parts_of
from graphut.attention.native.interval_parts import divide
from graphut.topology import Complete, parse
from tests.helpers import Pairs, assert_same, cross_edges, gradients, layout_of, multigraphs, normal
from tests.topology.catalogue import ALL

DIVIDED = ["strided:32", "dilated:32,4", "bigbird:32,32,32", "axial:64", "window:32|global:0,1,2,3"]


@pytest.fixture
def divides_all() -> Iterator[None]:
    """Divide small graphs too, and into parts that save nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interval_parts, "_FEWEST_EDGES", 0)
        patch.setattr(interval_parts, "_SHORTEST", 2)
        patch.setattr(interval_parts, "_SHARE", 0.0)
        patch.setattr(interval_parts, "_EDGE_COST", 1e6)
        yield


def check(layout: EdgeLayout, tolerance: float = 1e-10, heads: int = 2, **options: Any) -> None:
    """Compare outputs and gradients of the backend with those of the dense oracle in float64."""
    frontier, dtype = options.get("frontier"), options.pop("dtype", torch.float64)
    rows = layout.num_dst if frontier is None else len(frontier)
    sizes = [(rows, 5), (layout.num_src, 5), (layout.num_src, 18)]
    inputs = [normal(n, heads, d, seed=i, dtype=dtype) for i, (n, d) in enumerate(sizes)]
    found = []
    for backend, wide in (("native", False), ("dense", True)):
        given = [x.detach().double() if wide else x.detach() for x in inputs]
        if "edge_bias" in options:
            given.append(options["edge_bias"].detach())
        given = [x.requires_grad_() for x in given]
        own = options | dict(zip(["edge_bias"], given[3:], strict=False))
        out = edge_attention(
            layout, *given[:3], backend=backend, allow_zero_in_degree=True, scale=0.4, **own
        )
        found.append([x.double() for x in (out, *gradients([out], given))])
    assert_same(*found, tolerance)


@pytest.mark.parametrize("spec", DIVIDED)
def test_divide_leaves_few_edges_of_sparse_topologies_in_lists(spec: str) -> None:
    layout = parse(spec).layout([4096])
    listed = [part for part in divide(layout) if part.kernel != "interval"]
    assert sum(len(part.edges.indices) for part in listed) < 0.2 * layout.num_edges


def test_divide_leaves_other_graphs_whole() -> None:
    for spec, nodes in (("random:32", 4096), ("strided:4", 60), ("window:32", 4096)):
        assert divide(parse(spec).layout([nodes])) == []
    assert divide(cross_edges(Complete(), [70, 20], [20, 300])) == []


@pytest.mark.usefixtures("divides_all")
@pytest.mark.parametrize("spec", ALL)
def test_parts_give_the_attention_of_every_topology(spec: str) -> None:
    layout = parse(spec).layout([63, 2])
    bias = normal(layout.num_edges, 2, seed=5).detach()
    bias[::3] = bias[: layout.num_edges // 4] = -torch.inf
    options: dict[str, Any] = {"dropout": 0.3, "seed": 11, "edge_bias": bias}
    nodes = torch.arange(layout.num_dst)
    for frontier in (None, nodes[::2], nodes[5:6], nodes[:0]):
        check(layout, frontier=frontier)
        check(layout, frontier=frontier, **options)


@pytest.mark.usefixtures("divides_all")
@given(multigraphs())
def test_parts_give_the_attention_of_any_graph(graph: tuple[Pairs, int, int]) -> None:
    check(layout_of(*graph))


@pytest.mark.usefixtures("divides_all")
@pytest.mark.parametrize(
    ("threads", "heads"),
    [(1, 3), (2, 1), *(pytest.param(n, h, marks=pytest.mark.full) for n in (1, 2) for h in (3, 8))],
)
def test_parts_of_many_tiles_on_threads(threads: int, heads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    for spec in ("dilated:20,3", "strided:25", "axial:30"):
        layout = parse(spec).layout([500, 200])
        assert len(parts_of(layout, True)) > spec.startswith(("strided", "axial"))
        check(layout, heads=heads)
        check(layout, 1e-5, heads, dtype=torch.float32, frontier=torch.arange(0, 700, 3))
    torch.set_num_threads(before)
