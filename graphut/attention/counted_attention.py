"""Attention for a frontier (the active destinations) whose length only the GPU knows."""

from __future__ import annotations

import torch
from torch import Tensor

from graphut.attention.argument_checks import check_nonempty_rows
from graphut.attention.backend import AttentionCall
from graphut.attention.dropout import draw_seed
from graphut.attention.functorch import outside_autocast
from graphut.attention.key_value_memory import empty_call
from graphut.attention.layout import EdgeLayout
from graphut.attention.registry import choose
from graphut.attention.triton.backend import TRITON


def takes_counts(
    backend: str, layout: EdgeLayout, heads: int, like: Tensor, *, allow_zero_in_degree: bool
) -> bool:
    """Return whether `counted_attention` supports calls with this backend and layout.

    `backend` is a name or `"auto"`. `like` is a tensor with the device and dtype of the features.
    Raise `ValueError` if a destination has no in-edges and `allow_zero_in_degree` is false.
    """
    if not like.is_cuda or torch.compiler.is_compiling():
        return False
    call = empty_call(layout, heads, like)
    if choose(backend, call).attend_counted is None:
        return False
    if not allow_zero_in_degree:
        check_nonempty_rows(call)
    return True


def counted_attention(
    layout: EdgeLayout,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    frontier: Tensor,
    dropout: float = 0.0,
) -> Tensor:
    """Compute `edge_attention` for active destinations whose number only the GPU knows.

    `frontier`, `(A,)`, holds the sorted and unique ids of active destinations, followed by padding:
    ids beyond the last destination. The output of padding rows is zero. The arguments are
    not checked, and all features must be finite, even in padding rows.
    """
    attend_counted = TRITON.attend_counted
    assert attend_counted is not None
    call = AttentionCall(
        layout=layout,
        query=query,
        key=key,
        value=value,
        frontier=frontier,
        scale=query.shape[-1] ** -0.5,
        dropout=dropout,
        seed=draw_seed(query.device) if dropout else 0,
    )
    with outside_autocast(query.device.type):
        return attend_counted(call)
