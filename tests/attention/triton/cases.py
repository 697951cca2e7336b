"""Attention by the kernels beside that by masks in float64."""

from typing import Any

import torch
from torch import Tensor

from graphut.attention import EdgeLayout, edge_attention
from graphut.attention.backend import AttentionCall
from graphut.attention.triton import function
from graphut.topology import Window
from tests.attention.naive import hubs
from tests.helpers import assert_same, gradients, normal

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = {"intervals": Window(1).layout([5, 4]), "rows": hubs(5, 9, 24)}


def attend(
    layout: EdgeLayout,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    **options: Any,
) -> Tensor:
    """Attend by the kernels."""
    call = AttentionCall(layout=layout, query=query, key=key, value=value, **options)
    return function.attend(call)


def drawn(
    layout: EdgeLayout,
    rows: int | None = None,
    *,
    heads: int = 2,
    widths: tuple[int, int] = (3, 4),
    dtype: torch.dtype = torch.float32,
) -> list[Tensor]:
    """Query, key and value, with `widths` features of keys and of values."""
    rows = layout.num_dst if rows is None else rows
    shapes = ((rows, widths[0]), (layout.num_src, widths[0]), (layout.num_src, widths[1]))
    return [normal(n, heads, d, seed=seed, dtype=dtype) for seed, (n, d) in enumerate(shapes)]


def everything(layout: EdgeLayout, heads: int = 2) -> dict[str, Any]:
    """A bias and dropout."""
    bias = normal(layout.num_edges, heads, seed=4, dtype=torch.float32)
    return {"edge_bias": bias, "dropout": 0.4, "seed": 9}


def by_kernels(layout: EdgeLayout, tensors: list[Tensor], **options: Any) -> list[Tensor]:
    """Output and all gradients, computed where kernels run."""
    tensors = [_copy(x, device=DEVICE) for x in tensors]
    options = {name: _copy(x, device=DEVICE) for name, x in ({"scale": 0.6} | options).items()}
    out = attend(layout.to(DEVICE), *tensors, **options).cpu()
    return [x.cpu() for x in (out, *gradients([out], _learned(tensors, options)))]


def by_masks(
    layout: EdgeLayout, tensors: list[Tensor], dtype: torch.dtype = torch.float64, **options: Any
) -> list[Tensor]:
    """The same from the dense backend, computed in `dtype`."""
    options = {"scale": 0.6, "allow_zero_in_degree": True} | options
    given = [tensors[0], *_learned(tensors, options)]
    tensors = [_copy(x, dtype=dtype) for x in tensors]
    options = {name: _copy(x, dtype=dtype) for name, x in options.items()}
    out = edge_attention(layout, *tensors, backend="dense", **options)
    found = (out, *gradients([out], _learned(tensors, options)))
    return [x.to(like.dtype) for x, like in zip(found, given, strict=True)]


def agrees(layout: EdgeLayout, tensors: list[Tensor], tolerance: float = 1e-5, **more: Any) -> None:
    """Compare the kernels' output and gradients with those by masks."""
    found = by_kernels(layout, tensors, **more)
    assert_same(found, by_masks(layout, tensors, **more), tolerance)


def _copy(x: Any, device: str | None = None, dtype: torch.dtype | None = None) -> Any:
    if not isinstance(x, Tensor):
        return x
    if not x.is_floating_point():
        return x.to(device=device)
    return x.detach().to(device=device, dtype=dtype).requires_grad_(x.requires_grad)


def _learned(tensors: list[Tensor], options: dict[str, Any]) -> list[Tensor]:
    every = [*tensors, *options.values()]
    return [x for x in every if isinstance(x, Tensor) and x.requires_grad]
