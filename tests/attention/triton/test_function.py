from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="needs triton")

from graphut.attention import EdgeLayout
from graphut.topology import Causal, Complete, Window
from tests.attention.naive import GRAPHS, hubs
from tests.attention.triton.cases import (
    DEVICE,
    SHAPES,
    agrees,
    attend,
    by_kernels,
    by_masks,
    drawn,
    everything,
)
from tests.helpers import assert_same, no_device_waits, normal, relative_error

FRONTIERS = {"none": [], "some": [0, 2, 3]}
# Most gradients of queries there are differences of two numbers that are the same.
CANCEL = {"some-empty", "parallel"}
LARGE = {
    "complete": Complete().layout([63, 400, 1, 100]),
    "causal": Causal().layout([300, 17]),
    "window": Window(32).layout([700]),
    "rows": hubs(300, 200, 6000),
}
WIDTHS = [(64, 64), (128, 128), (33, 20), (256, 256), (512, 16), (600, 8)]


@pytest.mark.parametrize("with_all", [pytest.param(False, marks=pytest.mark.full), True])
@pytest.mark.parametrize("graph", GRAPHS)
def test_attend_every_graph(graph: str, with_all: bool) -> None:
    layout = GRAPHS[graph]
    options = everything(layout) if with_all else {}
    agrees(layout, drawn(layout), 1e-4 if graph in CANCEL else 1e-5, **options)


@pytest.mark.parametrize("frontier", FRONTIERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_attend_frontiers(shape: str, frontier: str) -> None:
    layout, nodes = SHAPES[shape], torch.tensor(FRONTIERS[frontier], dtype=torch.int64)
    agrees(layout, drawn(layout, nodes.numel()), frontier=nodes, **everything(layout))


@pytest.mark.parametrize("widths", [(1, 1), (33, 20)], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_attend_head_sizes(shape: str, widths: tuple[int, int]) -> None:
    agrees(SHAPES[shape], drawn(SHAPES[shape], widths=widths, heads=3))


@pytest.mark.parametrize("graph", ["intervals", "rows"])
def test_attend_half_is_at_most_three_times_as_far_off_as_dense_half(graph: str) -> None:
    dtype = torch.float16  # in products, Triton's interpreter takes bfloat16 for integers
    layout = {"intervals": Causal().layout([20, 14]), "rows": hubs(12, 12, 80)}[graph]
    tensors = drawn(layout, widths=(16, 16), dtype=dtype)
    exact = by_masks(layout, [x.float() for x in tensors])
    found, dense = by_kernels(layout, tensors), by_masks(layout, tensors, dtype)
    for a, b, truth in zip(found, dense, exact, strict=True):
        assert a.dtype == dtype
        assert relative_error(a, truth) <= 3 * relative_error(b, truth)  # as FlashAttention allows


@pytest.mark.parametrize("shape", SHAPES)
def test_attend_gives_the_same_bits_twice(shape: str) -> None:
    layout = SHAPES[shape]
    runs = [by_kernels(layout, drawn(layout), **everything(layout)) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


@pytest.mark.parametrize("shape", SHAPES)
def test_attend_with_a_large_number_for_a_mask(shape: str) -> None:
    layout = SHAPES[shape]
    bias = torch.full((layout.num_edges, 1), -(2.0**30))  # float32 loses all that is added to it
    found = by_kernels(layout, drawn(layout), edge_bias=bias)
    bias = torch.full((layout.num_edges, 1), -1e18)
    assert_same(found, by_masks(layout, drawn(layout), edge_bias=bias), 1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_attend_to_views_into_one_projection(shape: str) -> None:
    layout = Window(1).layout([5]) if shape == "intervals" else hubs(5, 5, 12)
    joint = normal(5, 2, 9, dtype=torch.float32)
    by_feature = list(joint.split(3, -1))
    by_block = list(joint.view(5, 3, 2, 3).unbind(1))
    for views in (by_feature, by_block):
        found = attend(layout.to(DEVICE), *(x.to(DEVICE) for x in views), scale=0.6).cpu()
        assert_same([found], by_masks(layout, views)[:1], 1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
@pytest.mark.parametrize("graph", LARGE)
def test_attend_on_gpu_is_exact_in_float32(graph: str, widths: tuple[int, int]) -> None:
    layout = LARGE[graph]
    nodes = torch.arange(0, layout.num_dst, 3)
    tensors = drawn(layout, nodes.numel(), widths=widths)
    options = everything(layout) | {"frontier": nodes, "scale": widths[0] ** -0.5}
    found, again = (by_kernels(layout, tensors, **options) for _ in range(2))
    assert_same(found, by_masks(layout, tensors, **options), 2e-5)
    assert all(map(torch.equal, found, again))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("widths", WIDTHS[:4], ids=str)
@pytest.mark.parametrize("graph", LARGE)
def test_attend_on_gpu_half_is_at_most_three_times_as_far_off_as_dense_half(
    graph: str, widths: tuple[int, int], dtype: torch.dtype
) -> None:
    layout = LARGE[graph]
    tensors = drawn(layout, widths=widths, dtype=dtype)
    scale = widths[0] ** -0.5
    exact = by_masks(layout, [x.float() for x in tensors], scale=scale)
    dense = by_masks(layout, tensors, dtype, scale=scale)
    for a, b, truth in zip(by_kernels(layout, tensors, scale=scale), dense, exact, strict=True):
        assert relative_error(a, truth) <= 3 * relative_error(b, truth)  # as FlashAttention allows


def step(layout: EdgeLayout, tensors: list[Tensor], **options: Any) -> None:
    out = attend(layout, *tensors, scale=0.125, **options)
    torch.autograd.grad(out, tensors, out.detach())


@pytest.mark.gpu
@pytest.mark.parametrize("graph", LARGE)
def test_attend_does_not_wait_for_the_host(graph: str) -> None:
    layout = LARGE[graph].to("cuda")
    frontier = torch.arange(0, layout.num_dst, 2, device="cuda")
    tensors = [x.detach().cuda().requires_grad_() for x in drawn(layout, frontier.numel())]
    options: dict[str, Any] = {"frontier": frontier, "dropout": 0.1}
    step(layout, tensors, **options)  # compiles, and prepares the layout
    with no_device_waits():
        step(layout, tensors, **options)


def test_attend_has_no_second_derivatives() -> None:
    layout = GRAPHS["causal"]
    query, key, value = drawn(layout)
    out = attend(layout.to(DEVICE), *(x.to(DEVICE) for x in (query, key, value)))
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(out.square().sum(), query, create_graph=True)
