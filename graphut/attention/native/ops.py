"""The compiled kernels as operators of torch: with shapes for tracing, and with gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_type_hints

import torch
from torch import Tensor

from graphut.attention.checks import check_finite, norm_of_rows
from graphut.attention.dropout import drop_below, seed_hash
from graphut.attention.library import Call, Library, Rows, compiled
from graphut.attention.transforms import in_transform

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


class Tensors(NamedTuple):
    """The tensors that both operators take, in their order: the fields of `Edges` are the last."""

    # Edges one by one: torch takes a list of tensors apart and together again at every call.
    query: Tensor  # (A, H, D)
    key: Tensor  # (N_src, H, D)
    value: Tensor  # (N_src, H, Dv)
    frontier: Tensor | None  # (A,)
    bias: Tensor | None  # (E, H) or (E, 1)
    table: Tensor | None  # (H, 2 R + 1), the relative bias
    start: Tensor
    stop: Tensor
    indices: Tensor
    first_edge: Tensor
    edge_ids: Tensor
    column_start: Tensor
    column_node: Tensor
    column_edge: Tensor


class Numbers(NamedTuple):
    """The other arguments of both operators; they come after the tensors."""

    scale: float
    dropout: float
    seed: int
    kernel: str  # one of KERNELS


class Gradients(NamedTuple):
    """Room for gradients; that of key and value is from `gradient_room`, or `zero_gradients`."""

    key: Tensor
    value: Tensor
    bias: Tensor  # (E, H), or of no entries
    table: Tensor  # (H, 2 R + 1), or of no entries


_TYPES = {Tensor: "Tensor", Tensor | None: "Tensor?", float: "float", int: "SymInt", str: "str"}
_HINTS = get_type_hints(Tensors) | get_type_hints(Numbers)
_SCHEMA = ", ".join(f"{_TYPES[hint]} {name}" for name, hint in _HINTS.items())


def _split(arguments: Sequence[Any]) -> tuple[Tensors, Numbers]:
    count = len(Tensors._fields)
    return Tensors(*arguments[:count]), Numbers(*arguments[count:])


def attend(tensors: Tensors, numbers: Numbers) -> tuple[Tensor, Tensor, bool]:
    """Return what `forward` does, and whether all of it is finite."""
    tensors = _contiguous(tensors)
    out, lse = _results(tensors)
    call = _call(tensors, numbers)
    call.out, call.lse = Rows.of(out), lse.data_ptr()
    return out, lse, _library().forward(call, tensors.query.dtype)


def forward(*arguments: Any) -> tuple[Tensor, Tensor]:
    """Return the output `(A, H, Dv)`, and the logarithm of each row's sum of exponentials."""
    tensors, numbers = _split(arguments)
    out, lse, finite = attend(tensors, numbers)
    if not finite:
        check_finite(query=tensors.query, key=tensors.key, value=tensors.value)
        raise ValueError(f"scores or values are too large for {lse.dtype}: make them smaller")
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
    return _results(_split(arguments)[0])


def backward(
    out_grad: Tensor, out: Tensor, lse: Tensor, *arguments: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of query, key, value, bias and table (of no entries without one)."""
    given, numbers = _split(arguments)
    bias, table = given.bias, given.table
    sums = Gradients(
        gradient_room(given.key),
        gradient_room(given.value),
        lse.new_zeros(0 if bias is None else (bias.shape[0], given.query.shape[1])),
        lse.new_zeros(0 if table is None else table.shape),
    )
    query_grad = write_gradients(out_grad, out, lse, given, numbers, sums, add=False)
    key_grad, value_grad = (
        trim_gradients(sums.key, given.key),
        trim_gradients(sums.value, given.value),
    )
    one_for_all_heads = bias is not None and bias.shape[1] == 1
    bias_grad = sums.bias.sum(1, keepdim=True) if one_for_all_heads else sums.bias
    return query_grad, key_grad, value_grad, bias_grad, sums.table


def write_gradients(
    out_grad: Tensor,
    out: Tensor,
    lse: Tensor,
    tensors: Tensors,
    numbers: Numbers,
    sums: Gradients,
    *,
    add: bool,
) -> Tensor:
    """Return the query's gradient, and write those of key and value, or add them to `sums`."""
    given, out_grad = _contiguous(tensors), _side_by_side(out_grad)
    query_grad = torch.empty_like(given.query, memory_format=torch.contiguous_format)
    call = _call(given, numbers)
    call.out, call.lse, call.out_grad = Rows.of(out), lse.data_ptr(), Rows.of(out_grad)
    call.query_grad, call.key_grad = Rows.of(query_grad), Rows.of(sums.key)
    call.value_grad, call.bias_grad = Rows.of(sums.value), _pointer(sums.bias)
    call.table_grad, call.adds = _pointer(sums.table), add
    _library().backward(call, given.query.dtype)
    return query_grad


edge_attention_backward_op = torch.library.custom_op(
    "graphut::edge_attention_backward",
    backward,
    mutates_args=(),
    device_types="cpu",
    schema=f"(Tensor out_grad, Tensor out, Tensor lse, {_SCHEMA}) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor)",
)


@edge_attention_backward_op.register_fake
def _(
    out_grad: Tensor, out: Tensor, lse: Tensor, *arguments: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    given, _ = _split(arguments)
    return (
        given.query.new_empty(given.query.shape),
        given.key.new_empty(given.key.shape),
        given.value.new_empty(given.value.shape),
        lse.new_empty(0 if given.bias is None else given.bias.shape),
        lse.new_empty(0 if given.table is None else given.table.shape),
    )


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    tensors, ctx.numbers = _split(inputs)
    ctx.save_for_backward(*tensors, *output)


def _backward(
    ctx: Any, out_grad: Tensor, _: Tensor, run: Callable[..., Any] = edge_attention_backward_op
) -> tuple[Tensor | None, ...]:
    *tensors, out, lse = ctx.saved_tensors
    given = Tensors(*tensors)
    query, key, value, bias, table = run(out_grad, out, lse, *given, *ctx.numbers)
    of_scores = (None if given.bias is None else bias, None if given.table is None else table)
    return query, key, value, None, *of_scores, *[None] * len(Edges._fields + Numbers._fields)


def _no_second_backward(ctx: Any, *_: Tensor) -> None:
    raise RuntimeError(
        "the backend 'native' has no second derivatives: use backend='dense', or backend='torch' "
        "with an edge_bias or on a graph whose in-neighbours are no intervals"
    )


edge_attention_op.register_autograd(_backward, setup_context=_setup_context)
edge_attention_backward_op.register_autograd(_no_second_backward)


class EdgeAttention(torch.autograd.Function):
    """Attend as `edge_attention_op` does, without the cost of calling an operator of torch.

    Torch cannot trace it. A derivative of its derivative is refused by the operator.
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        """Return the output and the log-sum-exp of each row."""
        results = forward(*arguments)
        _setup_context(ctx, arguments, results)
        ctx.mark_non_differentiable(results[1])
        return results

    @staticmethod
    def backward(ctx: Any, out_grad: Tensor, lse_grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of all arguments."""
        run = edge_attention_backward_op if torch.is_grad_enabled() else backward
        return _backward(ctx, out_grad, lse_grad, run)


def _call(given: Tensors, numbers: Numbers) -> Call:
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
        scale=numbers.scale,
        keep=1.0 - numbers.dropout,
        seed=seed_hash(numbers.seed),
        threshold=drop_below(numbers.dropout),
        kernel=KERNELS[numbers.kernel],
    )


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _contiguous(given: Tensors) -> Tensors:
    """Return the tensors as the kernels read them."""
    query, key, value, frontier, bias, table, *edges = given
    return Tensors(
        _side_by_side(query),
        _side_by_side(key),
        _side_by_side(value),
        None if frontier is None else frontier.contiguous(),
        None if bias is None else bias.contiguous(),
        None if table is None else table.contiguous(),
        *edges,
    )


def _side_by_side(table: Tensor) -> Tensor:
    """Return rows whose features of a head lie one after another."""
    return table if table.stride(2) == 1 else table.contiguous()


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _results(given: Tensors) -> tuple[Tensor, Tensor]:
    """Return room for output and log-sum-exp."""
    rows, heads = given.query.shape[:2]
    lse = given.query.new_empty(rows, heads, dtype=_wide(given.query.dtype))
    return given.value.new_empty(rows, heads, given.value.shape[2]), lse


def gradient_room(table: Tensor) -> Tensor:
    """Return room for a table's gradient: wide numbers, rows of whole vectors."""
    lanes = _library().lanes(table.dtype)
    width = -(-table.shape[-1] // lanes) * lanes
    return table.new_empty(*table.shape[:-1], width, dtype=_wide(table.dtype))


def zero_gradients(table: Tensor) -> Tensor:
    """Return zeros to add a table's gradient to."""
    return gradient_room(table).zero_()


def trim_gradients(sums: Tensor, like: Tensor) -> Tensor:
    """Return a gradient from its room, in the shape and dtype of the table."""
    return sums[..., : like.shape[-1]].to(like.dtype).contiguous()


def fast_norm(table: Tensor) -> float:
    """Return at least the norm of each row `(H, D)`, by the kernels where they read the table."""
    library = compiled()
    if library is None or not library.reads(table) or in_transform():
        return norm_of_rows(table)
    return library.norm(table)


def _library() -> Library:
    found = compiled()
    if found is None:
        raise RuntimeError(
            "the compiled kernels are missing; install graphut again where there is a C++ compiler"
        )
    return found
