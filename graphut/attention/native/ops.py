"""The compiled kernels as operators of torch: with shapes for tracing, and with gradients."""

from __future__ import annotations

from typing import Any, NamedTuple, get_type_hints

import torch
from torch import Tensor

from graphut.attention.checks import check_finite
from graphut.attention.dropout import drop_below, seed_hash
from graphut.attention.native.library import Call, Library, Rows, compiled

KERNELS = {"fastest": 0, "interval": 1, "rows": 2}


class Edges(NamedTuple):
    """The index tensors of a layout; what it has not is a tensor without entries."""

    start: Tensor  # (num_dst,) first entry of each destination's sources
    stop: Tensor  # (num_dst,) the entry after the last
    indices: Tensor  # (E,) sources; of no entries where `start` and `stop` are sources themselves
    first_edge: Tensor  # (num_dst + 1,) canonical index of each destination's first edge
    edge_ids: Tensor  # (E,) edge id of each canonical edge
    column_start: Tensor  # (num_src + 1,) first entry of each source's edges
    column_node: Tensor  # (E,) destination of each edge, by source
    column_edge: Tensor  # (E,) canonical index of each edge, by source


class Arguments(NamedTuple):
    """The arguments of both operators, in their order: the fields of `Edges` are the last."""

    # Edges one by one: torch takes a list of tensors apart and together again at every call.
    query: Tensor  # (A, H, D)
    key: Tensor  # (N_src, H, D)
    value: Tensor  # (N_src, H, Dv)
    frontier: Tensor | None  # (A,)
    bias: Tensor | None  # (E, H) or (E, 1)
    table: Tensor | None  # (H, 2 R + 1), the relative bias
    scale: float
    dropout: float
    seed: int
    kernel: str  # one of KERNELS
    start: Tensor
    stop: Tensor
    indices: Tensor
    first_edge: Tensor
    edge_ids: Tensor
    column_start: Tensor
    column_node: Tensor
    column_edge: Tensor


_NUMBERS = ("scale", "dropout", "seed", "kernel")
_NO_NUMBERS: dict[str, Any] = dict.fromkeys(_NUMBERS)
_TYPES = {Tensor: "Tensor", Tensor | None: "Tensor?", float: "float", int: "SymInt", str: "str"}
_SCHEMA = ", ".join(f"{_TYPES[hint]} {name}" for name, hint in get_type_hints(Arguments).items())


def forward(*arguments: Any) -> tuple[Tensor, Tensor]:
    """Return the output `(A, H, Dv)`, and the logarithm of each row's sum of exponentials."""
    given = _contiguous(Arguments(*arguments))
    out, lse = _results(given)
    call = _call(given)
    call.out, call.lse = Rows.of(out), lse.data_ptr()
    if not _library().forward(call, given.query.dtype):
        check_finite(query=given.query, key=given.key, value=given.value)
    return out, lse


edge_attention_op = torch.library.custom_op(
    "graphut::edge_attention",
    forward,
    mutates_args=(),
    device_types="cpu",
    schema=f"({_SCHEMA}) -> (Tensor, Tensor)",
)


@edge_attention_op.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor]:
    return _results(Arguments(*arguments))


@torch.library.custom_op(
    "graphut::edge_attention_backward",
    mutates_args=(),
    device_types="cpu",
    schema=f"(Tensor out_grad, Tensor out, Tensor lse, {_SCHEMA}) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def edge_attention_backward_op(
    out_grad: Tensor, out: Tensor, lse: Tensor, *arguments: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of query, key, value, bias and table (of no entries without one)."""
    given = Arguments(*arguments)
    key_grad, value_grad = zero_gradients(given.key), zero_gradients(given.value)
    bias, table = given.bias, given.table
    bias_grad = lse.new_zeros(0 if bias is None else (bias.shape[0], given.query.shape[1]))
    table_grad = lse.new_zeros(0 if table is None else table.shape)
    query_grad = add_gradients(
        out_grad,
        out,
        lse,
        given,
        key_grad=key_grad,
        value_grad=value_grad,
        bias_grad=bias_grad,
        table_grad=table_grad,
    )
    if bias is not None and bias.shape[1] == 1:
        bias_grad = bias_grad.sum(1, keepdim=True)
    return (
        query_grad,
        trim_gradients(key_grad, given.key),
        trim_gradients(value_grad, given.value),
        bias_grad,
        table_grad,
    )


def add_gradients(
    out_grad: Tensor,
    out: Tensor,
    lse: Tensor,
    arguments: Arguments,
    *,
    key_grad: Tensor,
    value_grad: Tensor,
    bias_grad: Tensor,
    table_grad: Tensor,
) -> Tensor:
    """Return the query's gradient; add the others to tables such as from `zero_gradients`."""
    given, out_grad = _contiguous(arguments), _side_by_side(out_grad)
    query_grad = torch.empty_like(given.query, memory_format=torch.contiguous_format)
    call = _call(given)
    call.out, call.lse, call.out_grad = Rows.of(out), lse.data_ptr(), Rows.of(out_grad)
    call.query_grad, call.key_grad = Rows.of(query_grad), Rows.of(key_grad)
    call.value_grad, call.bias_grad = Rows.of(value_grad), _pointer(bias_grad)
    call.table_grad = _pointer(table_grad)
    _library().backward(call, given.query.dtype)
    return query_grad


@edge_attention_backward_op.register_fake
def _(
    out_grad: Tensor, out: Tensor, lse: Tensor, *arguments: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    given = Arguments(*arguments)
    return (
        given.query.new_empty(given.query.shape),
        given.key.new_empty(given.key.shape),
        given.value.new_empty(given.value.shape),
        lse.new_empty(0 if given.bias is None else given.bias.shape),
        lse.new_empty(0 if given.table is None else given.table.shape),
    )


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    given = Arguments(*inputs)
    ctx.numbers = {name: getattr(given, name) for name in _NUMBERS}
    ctx.save_for_backward(*given._replace(**_NO_NUMBERS), *output)


def _backward(ctx: Any, out_grad: Tensor, _: Tensor) -> tuple[Any, ...]:
    *tensors, out, lse = ctx.saved_tensors
    given = Arguments(*tensors)._replace(**ctx.numbers)
    names = ("query", "key", "value", "bias", "table")
    found = edge_attention_backward_op(out_grad, out, lse, *given)
    grads = dict(zip(names, found, strict=True))
    return tuple(
        None if argument is None else grads.get(name) for name, argument in given._asdict().items()
    )


edge_attention_op.register_autograd(_backward, setup_context=_setup_context)


def _call(given: Arguments) -> Call:
    # A tensor without entries lies nowhere: the kernels take it for one that is not given.
    pointers = {name: _pointer(getattr(given, name)) for name in ("frontier", *Edges._fields)}
    return Call(
        rows=given.query.shape[0],
        heads=given.query.shape[1],
        key_feats=given.query.shape[2],
        value_feats=given.value.shape[2],
        sources=given.key.shape[0],
        nodes=given.stop.numel(),
        threads=torch.get_num_threads(),
        **pointers,
        query=Rows.of(given.query),
        key=Rows.of(given.key),
        value=Rows.of(given.value),
        bias=_pointer(given.bias),
        bias_heads=0 if given.bias is None else given.bias.shape[1],
        table=_pointer(given.table),
        reach=0 if given.table is None else given.table.shape[1] // 2,
        scale=given.scale,
        keep=1.0 - given.dropout,
        seed=seed_hash(given.seed),
        threshold=drop_below(given.dropout),
        kernel=KERNELS[given.kernel],
    )


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _contiguous(given: Arguments) -> Arguments:
    """Return the arguments as the kernels read them."""
    return given._replace(
        query=_side_by_side(given.query),
        key=_side_by_side(given.key),
        value=_side_by_side(given.value),
        frontier=None if given.frontier is None else given.frontier.contiguous(),
        bias=None if given.bias is None else given.bias.contiguous(),
        table=None if given.table is None else given.table.contiguous(),
    )


def _side_by_side(table: Tensor) -> Tensor:
    """Return rows whose features of a head lie one after another."""
    return table if table.stride(2) == 1 else table.contiguous()


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _results(given: Arguments) -> tuple[Tensor, Tensor]:
    """Return room for output and log-sum-exp."""
    rows, heads = given.query.shape[:2]
    lse = given.query.new_empty(rows, heads, dtype=_wide(given.query.dtype))
    return given.value.new_empty(rows, heads, given.value.shape[2]), lse


def zero_gradients(table: Tensor) -> Tensor:
    """Return zeros to add a table's gradient to: wide numbers, rows of whole vectors."""
    lanes = _library().lanes(table.dtype)
    width = -(-table.shape[-1] // lanes) * lanes
    return table.new_zeros(*table.shape[:-1], width, dtype=_wide(table.dtype))


def trim_gradients(sums: Tensor, like: Tensor) -> Tensor:
    """Return what `zero_gradients` has become, in the shape and dtype of the table."""
    return sums[..., : like.shape[-1]].to(like.dtype).contiguous()


def _library() -> Library:
    found = compiled()
    if found is None:
        raise RuntimeError(
            "the compiled kernels are missing; install graphut again where there is a C++ compiler"
        )
    return found
