"""Attention by the Triton kernels, with its gradient."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
import triton
from torch import Tensor

from graphut.attention.backend import AttentionCall
from graphut.attention.first_derivatives import once_differentiable
from graphut.attention.layout import EdgeLayout, IntervalLayout
from graphut.attention.triton import csr, interval
from graphut.attention.triton.inputs import (
    KernelCall,
    Launch,
    active_rows,
    dropout_of,
    kernel_call,
    packed,
    padded,
)
from graphut.attention.triton.kernels.attention import attention_forward
from graphut.attention.triton.sizes import WIDEST

INTERPRETED = not isinstance(attention_forward, triton.JITFunction)

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
    rows = active_rows(call.layout.num_dst, call.frontier)
    seed = call.seed
    if call.dropout and isinstance(seed, int):
        seed = torch.full((), seed, device=call.query.device)  # no copy from the host
    others = (call.layout, rows, call.scale, dropout_of(call.dropout, seed), split)
    tensors = (call.query, call.key, call.value, call.edge_bias)
    return _Attention.apply(others, *tensors)  # type: ignore[no-untyped-call]


class _Attention(torch.autograd.Function):
    """The autograd function of attention, which computes the weights again in the backward pass.

    It saves the softmax maximum and sum of each row and head. For 16-bit outputs it also saves the
    rounding error, because the gradients of all scores depend on the exact output.
    """

    @staticmethod
    def forward(ctx: Any, others: tuple[Any, ...], *tensors: Tensor | None) -> Tensor:
        kernels, call, known = _prepare(others, tensors)
        query, value = call.query.data, call.value.data
        out = value.new_empty(len(query), *value.shape[1:])
        softmax = out.new_empty(*out.shape[:2], 2, dtype=torch.float32)
        learning = any(ctx.needs_input_grad) and out.dtype != torch.float32
        rest = torch.empty_like(out) if learning else None
        known |= {"out": out, "rest": rest, "softmax": softmax}
        _run(kernels.launches_of(call, others[0], known))
        ctx.save_for_backward(*tensors, out, rest, softmax)
        ctx.others = others
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_out: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, out, rest, softmax = ctx.saved_tensors
        (_, *wanted), bias, layout = ctx.needs_input_grad, tensors[3], ctx.others[0]
        kernels, call, known = _prepare(ctx.others, tensors)
        known |= {"out": out, "rest": rest, "softmax": softmax, "to_out": packed(to_out)}
        known["delta"] = softmax.new_empty(softmax.shape[:2])
        known["to_query"] = torch.empty_like(call.query.data)
        for name, x in (("to_key", call.key.data), ("to_value", call.value.data)):
            known[name] = x.new_empty(x.shape) if wanted[1] or wanted[2] else None
        by_edge = layout.num_edges, call.heads.value
        known["to_bias"] = softmax.new_zeros(by_edge) if wanted[3] else None
        _run(kernels.launches_of(call, layout, known, backward=True))
        grads = [known[f"to_{name}"] for name in ("query", "key", "value", "bias")]
        if wanted[3]:
            grads[3] = grads[3].sum_to_size(bias.shape).to(bias.dtype)
        return None, *grads


def _prepare(
    others: tuple[Any, ...], tensors: Sequence[Any]
) -> tuple[ModuleType, KernelCall, dict[str, Any]]:
    """Return the module of the kernels, their call, and arguments that all calls have."""
    layout, rows, scale, drop, split = others
    given, bias = [packed(x) for x in tensors[:3]], tensors[3]
    kernels = kernels_of(layout, padded(max(given[0].shape[2], given[2].shape[2])))
    bias = None if bias is None else bias.contiguous()
    call = kernel_call(given, kernels.LEAST, rows=rows, scale=float(scale), drop=drop, bias=bias)
    return kernels, call, {"step": 1, "last_step": 1, "split": split}


def _run(launches: Sequence[Launch]) -> None:
    with torch.cuda.device_of(launches[0].arguments["call"].query.data):
        for launch in launches:
            launch.run()


def kernels_of(edges: EdgeLayout, width: int) -> ModuleType:
    """Return the module of the kernels: `interval` if dense tiles are possible, else `csr`.

    The features of a head are padded to `width`.
    """
    is_monotone = isinstance(edges, IntervalLayout) and edges.is_monotone and width <= WIDEST
    return interval if is_monotone else csr
