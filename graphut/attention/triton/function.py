"""Attention by the Triton kernels, with its gradient."""

from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor

from graphut.attention.backend import AttentionCall
from graphut.attention.first_derivatives import refuse_second_derivatives
from graphut.attention.triton.kernels.attention import attention_forward
from graphut.attention.triton.launches import Rows, dropout_of, edges_of, launches_of, packed

INTERPRETED = not isinstance(attention_forward, triton.JITFunction)


def attend(call: AttentionCall) -> Tensor:
    """Compute attention by the Triton kernels, differentiably.

    Layouts with `IntervalLayout.is_monotone` use dense tiles; other layouts gather the key and
    value of each edge. Once the layout has cached its index tensors, the host does not wait for the
    device. Two runs give the same bits, because the order of sums is fixed.

    The dtype is float32, bfloat16 or float16. The output is zero for rows without scores above
    `-inf`.
    """
    seed, rows = call.seed, Rows(None, None)
    if call.dropout and isinstance(seed, int):
        seed = torch.full((), seed, device=call.query.device)  # no copy from the host
    if call.frontier is not None:
        nodes = call.frontier.contiguous()
        every = torch.arange(call.layout.num_dst + 1, device=nodes.device)
        rows = Rows(nodes, torch.searchsorted(nodes, every, out_int32=True))
    more = {"scale": float(call.scale), "drop": dropout_of(call.dropout, seed), "rows": rows}
    tensors = [packed(x) for x in (call.query, call.key, call.value)]
    bias = None if call.edge_bias is None else call.edge_bias.contiguous()
    return _Attention.apply(call.layout, more, *tensors, bias)  # type: ignore[no-untyped-call]


class _Attention(torch.autograd.Function):
    """The autograd function of attention, which computes the weights again in the backward pass.

    It saves the softmax maximum and sum of each row and head.
    """

    @staticmethod
    def forward(ctx: Any, layout: Any, more: Any, *tensors: Any) -> Tensor:
        query, _, value, _ = tensors
        out: Tensor = value.new_empty(len(query), *value.shape[1:])
        softmax = out.new_empty(*out.shape[:2], 2, dtype=torch.float32)
        ctx.layout, ctx.more = layout, more
        _run(ctx, tensors, {"out": out, "softmax": softmax})
        ctx.save_for_backward(*tensors, out, softmax)
        return out

    @staticmethod
    def backward(ctx: Any, to_out: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        *tensors, out, softmax = ctx.saved_tensors
        *each, bias = tensors
        known = {"out": out, "softmax": softmax, "to_out": packed(to_out), "to_bias": None}
        known["delta"] = softmax.new_empty(softmax.shape[:2])
        grads = [x.new_empty(x.shape) for x in each]
        known |= zip(("to_query", "to_key", "to_value"), grads, strict=True)
        if ctx.needs_input_grad[5]:
            known["to_bias"] = softmax.new_zeros(ctx.layout.num_edges, out.shape[1])
        _run(ctx, tensors, known)
        to_bias = known["to_bias"]
        if to_bias is not None:
            to_bias = to_bias.sum_to_size(bias.shape).to(bias.dtype)
        return None, None, *grads, to_bias


def _run(ctx: Any, tensors: Sequence[Any], known: dict[str, Any]) -> None:
    """Launch the kernels that write what is `known`."""
    *each, bias = tensors
    by_edge = bias is not None or ctx.more["drop"] is not None
    width = max(each[0].shape[2], each[2].shape[2])
    edges = edges_of(ctx.layout, width, by_edge=by_edge, both="to_out" in known)
    known |= {"step": 1, "next_number": None}
    with torch.cuda.device_of(each[0]):
        for launch in launches_of(each, edges, known, bias=bias, **ctx.more):
            launch()
