"""The compiled kernels as operators of torch: with shapes for tracing, and with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, get_type_hints

import torch
from torch import Tensor
from torch._C._functorch import is_batchedtensor, is_legacy_batchedtensor

from graphut.attention.checks import bound_rows, check_finite
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


class Tables(NamedTuple):
    """The tensors of a call that are no index of its layout."""

    query: Tensor  # (A, H, D)
    key: Tensor  # (N_src, H, D)
    value: Tensor  # (N_src, H, Dv)
    frontier: Tensor | None  # (A,)
    bias: Tensor | None  # (E, H) or (E, 1)
    table: Tensor | None  # (H, 2 R + 1), the relative bias


class ScalarArgs(NamedTuple):
    """The arguments of a call that are no tensors."""

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
# Edges one by one: torch takes a list of tensors apart and together again at every call.
_HINTS = get_type_hints(Tables) | get_type_hints(Edges) | get_type_hints(ScalarArgs)
_SCHEMA = ", ".join(f"{_TYPES[hint]} {name}" for name, hint in _HINTS.items())


def _split(arguments: Sequence[Any]) -> tuple[Tables, Edges, ScalarArgs]:
    """Return the arguments of an operator as what they are."""
    tables, edges = len(Tables._fields), len(Tables._fields + Edges._fields)
    return (
        Tables(*arguments[:tables]),
        Edges(*arguments[tables:edges]),
        ScalarArgs(*arguments[edges:]),
    )


def attend(tables: Tables, edges: Edges, scalars: ScalarArgs) -> tuple[Tensor, Tensor, bool]:
    """Return what `forward` does, and whether all of it is finite."""
    tables = _contiguous(tables)
    out, softmax = _results(tables)
    call = make_call(tables, edges, scalars)
    call.out, call.softmax = Rows.of(out), softmax.data_ptr()
    return out, softmax, _library().forward(call, tables.query.dtype)


def forward(tables: Tables, edges: Edges, scalars: ScalarArgs) -> tuple[Tensor, Tensor]:
    """Return the output `(A, H, Dv)`, and `softmax` of `call.h`, `(A, H, 2)`."""
    out, softmax, finite = attend(tables, edges, scalars)
    if not finite:
        check_finite(query=tables.query, key=tables.key, value=tables.value)
        raise ValueError(f"scores or values are too large for {softmax.dtype}: make them smaller")
    return out, softmax


edge_attention_op = torch.library.custom_op(
    "graphut::edge_attention",
    lambda *arguments: forward(*_split(arguments)),
    mutates_args=(),
    device_types="cpu",
    schema=f"({_SCHEMA}) -> (Tensor, Tensor)",
)


@edge_attention_op.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor]:
    return _results(_split(arguments)[0])


def backward(
    out_grad: Tensor,
    out: Tensor,
    softmax: Tensor,
    tables: Tables,
    edges: Edges,
    scalars: ScalarArgs,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of query, key, value, bias and table (of no entries without one)."""
    _, key, value, _, bias, table = tables
    sums = Gradients(
        gradient_room(key),
        gradient_room(value),
        softmax.new_empty(0) if bias is None else softmax.new_zeros(bias.shape[0], key.shape[1]),
        softmax.new_empty(0) if table is None else softmax.new_zeros(table.shape),
    )
    query_grad = write_gradients(out_grad, out, softmax, tables, edges, scalars, sums, add=False)
    one_for_all_heads = bias is not None and bias.shape[1] == 1
    return (
        query_grad,
        trim_gradients(sums.key, key),
        trim_gradients(sums.value, value),
        sums.bias.sum(1, keepdim=True) if one_for_all_heads else sums.bias,
        sums.table,
    )


def write_gradients(
    out_grad: Tensor,
    out: Tensor,
    softmax: Tensor,
    tables: Tables,
    edges: Edges,
    scalars: ScalarArgs,
    sums: Gradients,
    *,
    add: bool,
) -> Tensor:
    """Return the query's gradient, and write those of key and value, or add them to `sums`."""
    tables, out_grad = _contiguous(tables), _side_by_side(out_grad)
    query_grad = torch.empty_like(tables.query, memory_format=torch.contiguous_format)
    call = make_call(tables, edges, scalars)
    call.out, call.softmax, call.out_grad = Rows.of(out), softmax.data_ptr(), Rows.of(out_grad)
    call.query_grad, call.key_grad = Rows.of(query_grad), Rows.of(sums.key)
    call.value_grad, call.bias_grad = Rows.of(sums.value), _pointer(sums.bias)
    call.table_grad, call.adds = _pointer(sums.table), add
    _library().backward(call, tables.query.dtype)
    return query_grad


edge_attention_backward_op = torch.library.custom_op(
    "graphut::edge_attention_backward",
    lambda out_grad, out, softmax, *arguments: backward(out_grad, out, softmax, *_split(arguments)),
    mutates_args=(),
    device_types="cpu",
    schema=f"(Tensor out_grad, Tensor out, Tensor softmax, {_SCHEMA}) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor)",
)


@edge_attention_backward_op.register_fake
def _(
    out_grad: Tensor, out: Tensor, softmax: Tensor, *arguments: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    given, _, _ = _split(arguments)
    return (
        given.query.new_empty(given.query.shape),
        given.key.new_empty(given.key.shape),
        given.value.new_empty(given.value.shape),
        softmax.new_empty(0 if given.bias is None else given.bias.shape),
        softmax.new_empty(0 if given.table is None else given.table.shape),
    )


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    tensors = len(inputs) - len(ScalarArgs._fields)
    ctx.save_for_backward(*inputs[:tensors], *output)
    ctx.scalars = inputs[tensors:]


def _op_backward(ctx: Any, out_grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    *tensors, out, softmax = ctx.saved_tensors
    grads = edge_attention_backward_op(out_grad, out, softmax, *tensors, *ctx.scalars)
    tables, *others = _split((*tensors, *ctx.scalars))
    return (*_by_table(tables, grads), *[None] * sum(map(len, others)))


def _by_table(given: Tables, grads: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Return the gradients that `backward` returns, one for each of the tables."""
    query, key, value, bias, table = grads
    of_scores = (None if given.bias is None else bias, None if given.table is None else table)
    return query, key, value, None, *of_scores


def _no_second_backward(ctx: Any, *_: Tensor) -> None:
    raise RuntimeError(
        "the backend 'native' has no second derivatives: use backend='dense', or backend='torch' "
        "with an edge_bias or on a graph whose in-neighbours are no intervals"
    )


edge_attention_op.register_autograd(_op_backward, setup_context=_setup_context)
edge_attention_backward_op.register_autograd(_no_second_backward)


def check_one_gradient(out_grad: Tensor) -> None:
    """Raise for a batch of gradients, of which torch hands on one tensor without storage."""
    if is_batchedtensor(out_grad) or is_legacy_batchedtensor(out_grad):
        raise RuntimeError(
            "the backend 'native' takes one gradient at a time: use backend='dense' for "
            "is_grads_batched, or for a vectorized Jacobian"
        )


class EdgeAttention(torch.autograd.Function):
    """Attend as `edge_attention_op` does, without the cost of calling an operator of torch.

    Torch cannot trace it. A derivative of its derivative is refused by the operator.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        frontier: Tensor | None,
        bias: Tensor | None,
        table: Tensor | None,
        edges: Edges,
        scalars: ScalarArgs,
    ) -> Tensor:
        """Return the output."""
        tables = Tables(query, key, value, frontier, bias, table)
        out, softmax = forward(tables, edges, scalars)
        ctx.save_for_backward(*tables, out, softmax)
        ctx.edges, ctx.scalars = edges, scalars
        return out

    @staticmethod
    def backward(ctx: Any, out_grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of all arguments."""
        check_one_gradient(out_grad)
        *tables, out, softmax = ctx.saved_tensors
        given = Tables(*tables)
        if torch.is_grad_enabled():
            arguments = (out_grad, out, softmax, *given, *ctx.edges, *ctx.scalars)
            grads = edge_attention_backward_op(*arguments)
        else:
            grads = backward(out_grad, out, softmax, given, ctx.edges, ctx.scalars)
        return (*_by_table(given, grads), None, None)


def make_call(given: Tables, edges: Edges, scalars: ScalarArgs) -> Call:
    """Return the arguments of a kernel, but for the room for what it finds."""
    # Field by field: arguments by name take twice as long, and a call is short.
    call = Call(scale=scalars.scale, kernel=KERNELS[scalars.kernel], keep=1.0)
    call.rows, call.heads, call.key_feats = given.query.shape
    call.sources, _, call.value_feats = given.value.shape
    call.nodes, call.threads = edges.stop.numel(), torch.get_num_threads()
    call.query, call.key = Rows.of(given.query), Rows.of(given.key)
    call.value = Rows.of(given.value)
    # A tensor without entries lies nowhere: the kernels take it for one that is not given.
    for name, index in zip(Edges._fields, edges, strict=True):
        setattr(call, name, index.data_ptr())
    call.frontier = _pointer(given.frontier)
    if given.bias is not None:
        call.bias, call.bias_heads = given.bias.data_ptr(), given.bias.shape[1]
    if given.table is not None:
        call.table, call.reach = given.table.data_ptr(), given.table.shape[1] // 2
    if scalars.dropout:
        call.keep, call.threshold = 1.0 - scalars.dropout, drop_below(scalars.dropout)
        call.seed = seed_hash(scalars.seed)
    return call


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _contiguous(given: Tables) -> Tables:
    """Return the tables as the kernels read them."""
    query, key, value, *others = given
    features = (_side_by_side(table) for table in (query, key, value))
    return Tables(*features, *(None if x is None else x.contiguous() for x in others))


def _side_by_side(table: Tensor) -> Tensor:
    """Return rows whose features of a head lie one after another, as they are in memory."""
    return table.resolve_neg() if table.stride(2) == 1 else table.contiguous()


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _results(given: Tables) -> tuple[Tensor, Tensor]:
    """Return room for the output, and for `softmax` of `call.h`."""
    rows, heads = given.query.shape[:2]
    softmax = given.query.new_empty(rows, heads, 2, dtype=_wide(given.query.dtype))
    return given.value.new_empty(rows, heads, given.value.shape[2]), softmax


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
    if sums.shape != like.shape:
        sums = sums[..., : like.shape[-1]].contiguous()
    return sums.to(like.dtype)


def fast_bounds(*tables: Tensor) -> list[float]:
    """Return what `bound_rows` does, by the kernels where they read the tables."""
    library = compiled()
    if library is None or in_transform() or not all(map(library.reads, tables)):
        return bound_rows(*tables)
    return library.norms(*tables)


def _library() -> Library:
    found = compiled()
    if found is None:
        raise RuntimeError(
            "the compiled kernels are missing; install graphut again where there is a C++ compiler"
        )
    return found
