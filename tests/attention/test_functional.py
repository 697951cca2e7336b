from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from graphut.attention import EdgeLayout, edge_attention, edge_sums
from graphut.topology import Causal, Complete, Window
from tests.attention.naive import GRAPHS, ON_CPU, OPTIONS, hubs, inputs
from tests.helpers import (
    Pairs,
    assert_same,
    covering,
    gradients,
    layout_of,
    multigraphs,
    name_of,
    normal,
    relative_error,
)

FAST = ["auto", *(name for name in ON_CPU if name != "dense")]
FRONTIERS = {"all": None, "none": [], "one": [1], "some": [0, 2, 3, 5]}


def run(backend: str, layout: EdgeLayout, tensors: list[Tensor], **options: Any) -> list[Tensor]:
    """Output, weights where asked for, and all gradients."""
    options = {"allow_zero_in_degree": True} | options
    result = edge_attention(layout, *tensors, backend=backend, **options)
    outputs = list(result) if isinstance(result, tuple) else [result]
    wanted = tensors + [x for x in options.values() if isinstance(x, Tensor) and x.requires_grad]
    return outputs + gradients(outputs, wanted)


def check_against_dense(
    backend: str, layout: EdgeLayout, nodes: list[int] | None, options: str
) -> None:
    frontier = None if nodes is None else torch.tensor(nodes, dtype=torch.int64)
    rows = layout.num_dst if nodes is None else len(nodes)
    tensors = list(inputs(layout, rows, value_feats=3 if "features" in options else 4))
    given = OPTIONS[options](layout.num_edges) | {"frontier": frontier}
    assert_same(run(backend, layout, tensors, **given), run("dense", layout, tensors, **given))


CASES = covering(backend=FAST, graph=[*GRAPHS], frontier=[*FRONTIERS], options=[*OPTIONS])


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_edge_attention_agrees_between_backends(case: dict[str, str]) -> None:
    layout, nodes = GRAPHS[case["graph"]], FRONTIERS[case["frontier"]]
    if nodes is not None:
        nodes = [node for node in nodes if node < layout.num_dst]
    check_against_dense(case["backend"], layout, nodes, case["options"])


@pytest.mark.parametrize("backend", FAST)
@given(multigraphs(), st.sampled_from([*OPTIONS]), st.data())
def test_edge_attention_agrees_between_backends_on_any_graph(
    backend: str, graph: tuple[Pairs, int, int], options: str, data: st.DataObject
) -> None:
    layout = layout_of(*graph)
    nodes = data.draw(st.none() | st.sets(st.integers(0, layout.num_dst - 1)).map(sorted))
    check_against_dense(backend, layout, nodes, options)


@pytest.mark.parametrize("graph", GRAPHS)
def test_edge_attention_of_a_frontier_is_its_rows_of_the_whole(graph: str) -> None:
    layout, nodes = GRAPHS[graph], torch.arange(0, GRAPHS[graph].num_dst, 2)
    query, key, value = inputs(layout)
    edges = layout.in_edges(nodes)[2]
    options: dict[str, Any] = {"allow_zero_in_degree": True, "get_attention": True}
    for extra in ({}, {"dropout": 0.4, "seed": 3}):
        options |= {"backend": "dense", **extra}
        whole, weights = edge_attention(layout, query, key, value, **options)
        found = edge_attention(layout, query[nodes], key, value, frontier=nodes, **options)
        by_edge = torch.zeros_like(weights).index_copy(0, edges, weights[edges])
        assert_same(found, [whole[nodes], by_edge])


def test_edge_attention_dropout_without_a_seed_follows_torchs_generator() -> None:
    layout = Complete().layout([6])
    draws = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        draws.append(edge_attention(layout, *inputs(layout), dropout=0.5))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("backend", ON_CPU)
def test_edge_attention_of_dead_destinations_is_zero_and_passes_no_gradient(backend: str) -> None:
    layout = layout_of([(0, 0), (1, 0), (1, 2)], 2, 3)  # none into 1, -inf alone into 2
    tensors = list(inputs(layout))
    bias = torch.tensor([0.5, 1.0, -torch.inf]).double().requires_grad_()
    out, to_query, *others = run(backend, layout, tensors, edge_bias=bias)
    assert not out[1:].any() and out[0].any()
    assert not to_query[1:].any() and to_query[0].any()
    assert not others[-1][2:].any()
    assert all(gradient.isfinite().all() for gradient in others)


def rounded(layout: EdgeLayout, given: torch.dtype, dtype: torch.dtype) -> list[Tensor]:
    """Query, key and value that fit in `given`, in `dtype`."""
    shapes = ((layout.num_dst, 16), (layout.num_src, 16), (layout.num_src, 16))
    drawn = (normal(n, 4, d, seed=seed, dtype=given) for seed, (n, d) in enumerate(shapes))
    return [x.detach().to(dtype).requires_grad_() for x in drawn]


PRECISION = {
    "alike": Complete().layout([20, 20]),
    "lengths": Causal().layout([17, 30]),
    "window": Window(3).layout([40]),
    "rows": hubs(30, 30, 300),
}


@pytest.mark.parametrize("backend", ON_CPU)
@pytest.mark.parametrize("graph", PRECISION)
def test_edge_attention_in_float32(graph: str, backend: str) -> None:
    layout, single = PRECISION[graph], torch.float32
    exact = run("dense", layout, rounded(layout, single, torch.float64))
    assert_same(
        run(backend, layout, rounded(layout, single, single)), [x.float() for x in exact], 1e-5
    )


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("graph", PRECISION)
def test_edge_attention_in_bfloat16_is_at_most_twice_as_far_off_as_dense(
    graph: str, backend: str
) -> None:
    layout, half = PRECISION[graph], torch.bfloat16
    exact = run("dense", layout, rounded(layout, half, torch.float64))
    dense, found = (run(name, layout, rounded(layout, half, half)) for name in ("dense", backend))
    for a, b, truth in zip(found, dense, exact, strict=True):
        assert a.dtype == half
        assert relative_error(a, truth) <= 2 * relative_error(b, truth)


@pytest.mark.parametrize("backend", ON_CPU)
@pytest.mark.parametrize("graph", PRECISION)
def test_edge_attention_under_autocast_leaves_scores_in_float32(graph: str, backend: str) -> None:
    tensors = rounded(PRECISION[graph], torch.float32, torch.float32)
    plain = edge_attention(PRECISION[graph], *tensors, backend=backend)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = edge_attention(PRECISION[graph], *tensors, backend=backend)
    assert torch.equal(under, plain)


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["dense", "torch", "auto"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_edge_attention_of_a_graph_on_the_cpu_with_features_on_the_gpu(
    graph: str, backend: str
) -> None:
    layout = GRAPHS[graph]
    tensors = list(inputs(layout))
    moved = [x.detach().cuda().requires_grad_() for x in tensors]
    result = edge_attention(layout, *moved, allow_zero_in_degree=True, backend=backend)
    assert result.device.type == "cuda"
    found = [result.cpu(), *(x.cpu() for x in gradients([result.cpu()], moved))]
    assert_same(found, run("dense", layout, tensors))


class LargestTensor(TorchDispatchMode):
    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, Tensor):
                self.entries = max(self.entries, tensor.numel())
        return out


@pytest.mark.parametrize("with_feat", [False, True])
def test_edge_attention_makes_no_tensor_of_edges_by_heads_by_features(
    with_feat: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_sums, "_ENTRIES", 1024)
    layout, edges, heads, feats = hubs(50, 50, 4000), 4000, 4, 16
    tensors = [normal(50, heads, feats, seed=seed, dtype=torch.float32) for seed in range(3)]
    options = {}
    if with_feat:
        options = {"edge_feat": normal(edges, 8, seed=3), "edge_map": normal(heads, feats, 8)}
    with LargestTensor() as largest:
        out = edge_attention(layout, *tensors, **options, backend="torch")
        gradients([out], [*tensors, *options.values()])
    assert largest.entries == edges * (8 if with_feat else heads)
    expected = run("dense", layout, tensors, **options)
    assert_same(run("torch", layout, tensors, **options), expected, 1e-4)
