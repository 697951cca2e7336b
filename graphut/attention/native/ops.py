"""The compiled kernels as operators of torch: with shapes for tracing, and with gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphut.attention.checks import check_finite
from graphut.attention.dropout import drop_below, seed_hash
from graphut.attention.native.library import Call, Library, Rows, compiled

# The order of `edges` in the operators; what a layout has not is a tensor without entries.
EDGES = (
    *("start", "stop", "indices", "first_edge", "edge_ids"),
    *("column_start", "column_node", "column_edge"),
)
KERNELS = {"fastest": 0, "interval": 1, "rows": 2}

# One by one: torch takes a list of tensors apart and together again at every call.
_CALL = (
    "Tensor query, Tensor key, Tensor value, Tensor? frontier, Tensor? bias, Tensor? table, "
    "float scale, float dropout, SymInt seed, str kernel, "
) + ", ".join(f"Tensor {name}" for name in EDGES)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    frontier: Tensor | None,
    bias: Tensor | None,
    table: Tensor | None,
    scale: float,
    dropout: float,
    seed: int,
    kernel: str,
    *edges: Tensor,
) -> tuple[Tensor, Tensor]:
    """Output `(A, H, Dv)`, and the logarithm of each row's sum of exponentials, `(A, H)`."""
    query, key, value = map(_side_by_side, (query, key, value))
    frontier, bias, table = map(_packed, (frontier, bias, table))
    out, lse = _results(query, value)
    call = _call(query, key, value, frontier, bias, table, scale, dropout, seed, kernel, *edges)
    call.out, call.lse = Rows.of(out), lse.data_ptr()
    if not _library().forward(call, query.dtype):
        check_finite(query=query, key=key, value=value)
    return out, lse


edge_attention_op = torch.library.custom_op(
    "graphut::edge_attention",
    attend,
    mutates_args=(),
    device_types="cpu",
    schema=f"({_CALL}) -> (Tensor, Tensor)",
)


@edge_attention_op.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _results(query, value)


@torch.library.custom_op(
    "graphut::edge_attention_backward",
    mutates_args=(),
    device_types="cpu",
    schema=f"(Tensor out_grad, Tensor out, Tensor lse, {_CALL}) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def edge_attention_backward_op(
    out_grad: Tensor,
    out: Tensor,
    lse: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    frontier: Tensor | None,
    bias: Tensor | None,
    table: Tensor | None,
    scale: float,
    dropout: float,
    seed: int,
    kernel: str,
    *edges: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value, bias and table (of no entries without one)."""
    key_grad, value_grad = zero_sums(key), zero_sums(value)
    bias_grad = lse.new_zeros(0 if bias is None else (bias.shape[0], query.shape[1]))
    table_grad = lse.new_zeros(0 if table is None else table.shape)
    query_grad = add_gradients(
        out_grad,
        out,
        lse,
        query,
        key,
        value,
        frontier,
        bias,
        table,
        scale,
        dropout,
        seed,
        kernel,
        *edges,
        key_grad=key_grad,
        value_grad=value_grad,
        bias_grad=bias_grad,
        table_grad=table_grad,
    )
    if bias is not None and bias.shape[1] == 1:
        bias_grad = bias_grad.sum(1, keepdim=True)
    return query_grad, trimmed(key_grad, key), trimmed(value_grad, value), bias_grad, table_grad


def add_gradients(
    out_grad: Tensor,
    out: Tensor,
    lse: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    frontier: Tensor | None,
    bias: Tensor | None,
    table: Tensor | None,
    scale: float,
    dropout: float,
    seed: int,
    kernel: str,
    *edges: Tensor,
    key_grad: Tensor,
    value_grad: Tensor,
    bias_grad: Tensor,
    table_grad: Tensor,
) -> Tensor:
    """The query's gradient; those of key and value are added to tables from `zero_sums`."""
    query, key, value, out_grad = map(_side_by_side, (query, key, value, out_grad))
    frontier, bias, table = map(_packed, (frontier, bias, table))
    query_grad = torch.empty_like(query, memory_format=torch.contiguous_format)
    call = _call(query, key, value, frontier, bias, table, scale, dropout, seed, kernel, *edges)
    call.out, call.lse, call.out_grad = Rows.of(out), lse.data_ptr(), Rows.of(out_grad)
    call.query_grad, call.key_grad = Rows.of(query_grad), Rows.of(key_grad)
    call.value_grad, call.bias_grad = Rows.of(value_grad), _pointer(bias_grad)
    call.table_grad = _pointer(table_grad)
    _library().backward(call, query.dtype)
    return query_grad


@edge_attention_backward_op.register_fake
def _(
    out_grad: Tensor,
    out: Tensor,
    lse: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    frontier: Tensor | None,
    bias: Tensor | None,
    table: Tensor | None,
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (
        query.new_empty(query.shape),
        key.new_empty(key.shape),
        value.new_empty(value.shape),
        lse.new_empty(0 if bias is None else bias.shape),
        lse.new_empty(0 if table is None else table.shape),
    )


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.numbers = inputs[6:10]
    ctx.save_for_backward(*inputs[:6], *inputs[10:], *output)


def _backward(ctx: Any, out_grad: Tensor, _: Tensor) -> tuple[Any, ...]:
    query, key, value, frontier, bias, table, *edges, out, lse = ctx.saved_tensors
    *grads, bias_grad, table_grad = edge_attention_backward_op(
        out_grad, out, lse, query, key, value, frontier, bias, table, *ctx.numbers, *edges
    )
    of_scores = (None if bias is None else bias_grad, None if table is None else table_grad)
    return *grads, None, *of_scores, *([None] * (len(ctx.numbers) + len(edges)))


edge_attention_op.register_autograd(_backward, setup_context=_setup_context)


def _call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    frontier: Tensor | None,
    bias: Tensor | None,
    table: Tensor | None,
    scale: float,
    dropout: float,
    seed: int,
    kernel: str,
    *edges: Tensor,
) -> Call:
    # A tensor without entries lies nowhere: the kernels take it for one that is not given.
    pointers = dict(zip(EDGES, map(_pointer, edges), strict=True))
    return Call(
        rows=query.shape[0],
        heads=query.shape[1],
        key_feats=query.shape[2],
        value_feats=value.shape[2],
        sources=key.shape[0],
        nodes=edges[1].numel(),
        threads=torch.get_num_threads(),
        frontier=_pointer(frontier),
        **pointers,
        query=Rows.of(query),
        key=Rows.of(key),
        value=Rows.of(value),
        bias=_pointer(bias),
        bias_heads=0 if bias is None else bias.shape[1],
        table=_pointer(table),
        reach=0 if table is None else table.shape[1] // 2,
        scale=scale,
        keep=1.0 - dropout,
        seed=seed_hash(seed),
        threshold=drop_below(dropout),
        kernel=KERNELS[kernel],
    )


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _side_by_side(table: Tensor) -> Tensor:
    """The kernels read features of a head one after another."""
    return table if table.stride(2) == 1 else table.contiguous()


def _packed(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _results(query: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    rows, heads = query.shape[:2]
    lse = query.new_empty(rows, heads, dtype=_wide(query.dtype))
    return value.new_empty(rows, heads, value.shape[2]), lse


def zero_sums(table: Tensor) -> Tensor:
    """Zeros for the gradient of a table: wide numbers, rows of whole vectors."""
    lanes = _library().lanes(table.dtype)
    width = -(-table.shape[-1] // lanes) * lanes
    return table.new_zeros(*table.shape[:-1], width, dtype=_wide(table.dtype))


def trimmed(sums: Tensor, like: Tensor) -> Tensor:
    """What `zero_sums` has become, in the shape and dtype of the table."""
    return sums[..., : like.shape[-1]].to(like.dtype).contiguous()


def _library() -> Library:
    found = compiled()
    if found is None:
        raise RuntimeError(
            "the compiled kernels are missing; install graphut again where there is a C++ compiler"
        )
    return found
