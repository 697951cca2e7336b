"""Attention by the Triton kernels, with its gradient."""

from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor

from graphut.attention.backend import AttentionCall
from graphut.attention.first_derivatives import once_differentiable
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
    seed = call.seed
    if call.dropout and isinstance(seed, int):
        seed = torch.full((), seed, device=call.query.device)  # no copy from the host
    bias = None if call.edge_bias is None else call.edge_bias.contiguous()
    more: dict[str, Any] = {"scale": float(call.scale), "drop": dropout_of(call.dropout, seed)}
    more["rows"] = Rows(None, None)
    if call.frontier is not None:
        nodes = call.frontier.contiguous()
        every = torch.arange(call.layout.num_dst + 1, device=nodes.device)
        more["rows"] = Rows(nodes, torch.searchsorted(nodes, every, out_int32=True))
    tensors = *(packed(x) for x in (call.query, call.key, call.value)), bias
    return _Attention.apply(call.layout, more, *tensors)  # type: ignore[no-untyped-call]


class _Attention(torch.autograd.Function):
    """The autograd function of attention, which computes the weights again in the backward pass.

    It saves the softmax maximum and sum of each row and head.
    """

    @staticmethod
    def forward(ctx: Any, layout: Any, more: Any, *tensors: Tensor | None) -> Tensor:
        query, _, value, _ = tensors
        assert query is not None and value is not None
        out = value.new_empty(len(query), *value.shape[1:])
        softmax = out.new_empty(*out.shape[:2], 2, dtype=torch.float32)
        ctx.layout, ctx.more = layout, more
        _run(ctx, tensors, {"out": out, "softmax": softmax})
        ctx.save_for_backward(*tensors, out, softmax)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_out: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, out, softmax = ctx.saved_tensors
        (query, key, value, bias), wanted = tensors, ctx.needs_input_grad[2:]
        known = {"out": out, "softmax": softmax, "to_out": packed(to_out)}
        known["delta"] = softmax.new_empty(softmax.shape[:2])
        known["to_query"] = torch.empty_like(query)
        for name, x in (("to_key", key), ("to_value", value)):
            known[name] = x.new_empty(x.shape) if wanted[1] or wanted[2] else None
        by_edge = ctx.layout.num_edges, query.shape[1]
        known["to_bias"] = softmax.new_zeros(by_edge) if wanted[3] else None
        _run(ctx, tensors, known, backward=True)
        grads = [known[f"to_{name}"] for name in ("query", "key", "value", "bias")]
        if wanted[3]:
            grads[3] = grads[3].sum_to_size(bias.shape).to(bias.dtype)
        return None, None, *grads


def _run(
    ctx: Any, tensors: Sequence[Any], known: dict[str, Any], *, backward: bool = False
) -> None:
    """Launch the kernels that write what is `known`."""
    *each, bias = tensors
    by_edge = bias is not None or ctx.more["drop"] is not None
    both = backward and known["to_key"] is not None
    width = max(each[0].shape[2], each[2].shape[2])
    edges = edges_of(ctx.layout, width, by_edge=by_edge, both=both)
    known |= {"step": 1, "last_step": 1}
    launches = launches_of(each, edges, known, backward=backward, bias=bias, **ctx.more)
    with torch.cuda.device_of(each[0]):
        for launch in launches:
            launch()
