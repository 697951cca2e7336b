"""Attention by the Triton kernels, with its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
import triton
from torch import Tensor

from graphut.attention.backend import AttentionCall
from graphut.attention.layout import EdgeLayout, IntervalLayout
from graphut.attention.second_derivatives import refuse_second_derivatives
from graphut.attention.triton import csr, interval
from graphut.attention.triton.inputs import ActiveRows, KernelInputs, active_rows, packed
from graphut.attention.triton.kernels.csr import rows_forward
from graphut.attention.triton.sizes import WIDEST

INTERPRETED = not isinstance(rows_forward, triton.JITFunction)

# A row, or a column, of more edges is done by several programs.
SPLIT = 512


def attend(call: AttentionCall, *, split: int = SPLIT) -> Tensor:
    """Compute attention by the Triton kernels, differentiably.

    Layouts with `IntervalLayout.is_monotone` use dense tiles; other layouts gather the key and
    value of each edge. Once the layout has cached its index tensors, the host does not wait for the
    device. Two runs give the same bits, because the order of sums is fixed.

    The dtype is float32, bfloat16 or float16. The output is zero for rows without scores above
    `-inf`. Without dense tiles, one program computes at most `split` edges of a row.
    """
    active = active_rows(call.layout.num_dst, call.frontier)
    seed = call.seed
    if call.dropout and isinstance(seed, int):
        seed = torch.full((), seed, device=call.query.device)  # no copy from the host
    numbers = (call.scale, call.dropout, seed, split)
    return _Attention.apply(  # type: ignore[no-untyped-call]
        call.query, call.key, call.value, call.edge_bias, call.layout, active, *numbers
    )


class _Attention(torch.autograd.Function):
    """The autograd function of attention, which computes the weights again in the backward pass.

    It saves the softmax maximum and sum of each row and head. For 16-bit outputs it also saves the
    rounding error, because the gradients of all scores depend on the exact output.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        edge_bias: Tensor | None,
        layout: EdgeLayout,
        active: ActiveRows,
        *numbers: Any,
    ) -> Tensor:
        bias = _contiguous(edge_bias)
        given = query, key, value, edge_bias
        query, key, value = packed(query), packed(key), packed(value)
        inputs = KernelInputs(layout, active, query, key, value, bias, *numbers)
        out = value.new_empty(active.rows, *value.shape[1:])
        softmax = out.new_empty(*query.shape[:2], 2, dtype=torch.float32)
        learning = any(ctx.needs_input_grad) and out.dtype != torch.float32
        rest = torch.empty_like(out) if learning else None
        with torch.cuda.device_of(query):
            for launch in kernels_of(inputs).forward(inputs, out, rest, softmax):
                launch.run()
        ctx.save_for_backward(*given, out, rest, softmax)
        ctx.others = (layout, active, *numbers)
        return out

    @staticmethod
    def backward(ctx: Any, to_out: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, bias, *results = ctx.saved_tensors
        with torch.no_grad():
            packed_inputs = packed(query), packed(key), packed(value), _contiguous(bias)
            grads = _gradients(ctx, packed_inputs, results, packed(to_out))
        inputs = (query, key, value, bias, to_out)
        return *refuse_second_derivatives("the backend 'triton'", grads, inputs), *[None] * 6


def _gradients(
    ctx: Any,
    given: tuple[Tensor, Tensor, Tensor, Tensor | None],
    results: Sequence[Tensor | None],
    to_out: Tensor,
) -> list[Tensor | None]:
    """Return the gradients of query, key, value and bias (`given`), from the saved `results`."""
    query, key, value, bias = given
    out, rest, softmax = results
    assert softmax is not None
    layout, active, *numbers = ctx.others
    inputs = KernelInputs(layout, active, query, key, value, bias, *numbers)
    to_query = torch.empty_like(query)
    to_key, to_value = (x.new_empty(x.shape) for x in (key, value))
    to_bias = None
    if ctx.needs_input_grad[3]:
        to_bias = softmax.new_zeros(layout.num_edges, inputs.heads)
    shared = {"to_out": to_out, "to_out_stride": to_out.stride(0), "softmax": softmax}
    shared["delta"] = softmax.new_empty(softmax.shape[:2])
    kernels, of_rows = kernels_of(inputs), {"out": out, "rest": rest, "to_bias": to_bias}
    launches = kernels.backward_rows(inputs, to_query, of_rows | shared)
    if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
        launches += kernels.backward_sources(inputs, to_key, to_value, shared)
    with torch.cuda.device_of(query):
        for launch in launches:
            launch.run()
    if to_bias is not None and bias is not None:
        to_bias = to_bias.sum_to_size(bias.shape).to(bias.dtype)
    return [to_query, to_key, to_value, to_bias]


def _contiguous(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.contiguous()


def kernels_of(inputs: KernelInputs) -> ModuleType:
    """Return the module of the kernels: `interval` if dense tiles are possible, else `csr`."""
    has = inputs.tables is not None or has_tiles(inputs.layout, max(inputs.widths))
    return interval if has else csr


def has_tiles(layout: EdgeLayout, width: int) -> bool:
    """Return whether the kernels for intervals support a layout, and heads of `width` features."""
    return isinstance(layout, IntervalLayout) and layout.is_monotone and width <= WIDEST
