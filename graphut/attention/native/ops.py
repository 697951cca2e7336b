"""The compiled kernels as functions of tensors."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphut.attention import kernel_library
from graphut.attention.checks import refuse_output
from graphut.attention.dropout import drop_below, seed_hash
from graphut.attention.kernel_library import DTYPES, Call, Library, Rows
from graphut.attention.tracing import cached_property

KERNELS = {"fastest": 0, "interval": 1, "rows": 2, "pairs": 3}
WIDE = {dtype: torch.promote_types(dtype, torch.float32) for dtype in DTYPES}


class Edges(NamedTuple):
    """The index tensors of a layout; tensors that this kind of layout does not need are empty."""

    start: Tensor  # (num_dst,) index, in `indices`, of each destination's first source
    stop: Tensor  # (num_dst,) index after its last source
    indices: Tensor  # (E,) sources; empty if `start` and `stop` are sources themselves
    first_edge: Tensor  # (num_dst + 1,) canonical index of each destination's first edge
    edge_ids: Tensor  # (E,) edge id of each canonical edge
    column_start: Tensor  # (num_src + 1,) first entry of each source's edges
    column_node: Tensor  # (E,) destination of each edge, by source
    column_edge: Tensor  # (E,) canonical index of each edge, by source


@dataclass(frozen=True, eq=False)
class Part:
    """Some of the edges of a layout, or all of them, for one call of a kernel.

    Only the kernel for intervals supports the fields `rows` and `order`. It computes only the
    destinations `rows`. If there is an `order`, `edges.start` and `edges.stop` are indices into it.
    """

    edges: Edges
    kernel: str = ""  # one of `KERNELS`; "": as in the call
    rows: Tensor | None = None  # (R,) destinations to compute, in this order; None: all
    order: Tensor | None = None  # (N_src,) a permutation of the sources; None: 0, 1, 2, ...
    tables: dict[Any, Call] = field(default_factory=dict)  # the templates of `KeyValueMemory`

    @cached_property
    def template(self) -> Call:
        """Fill in the arguments of a kernel that are the same in all calls for these edges."""
        call = Call(nodes=self.edges.stop.numel(), keep=1.0)
        # The pointer of an empty tensor is null, which tells the kernels that it is missing.
        for name, index in zip(Edges._fields, self.edges, strict=True):
            setattr(call, name, index.data_ptr())
        return call

    def select(self, frontier: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Return the ids of the destinations in `frontier` and in `rows`, and their query rows.

        None means all destinations, or all query rows in order.
        """
        if self.rows is None:
            return frontier, None
        if frontier is None:
            return self.rows, self.rows
        row_of = self.rows.new_full((self.edges.stop.numel(),), -1)
        row_of[frontier] = torch.arange(len(frontier))
        row = row_of[self.rows]
        return self.rows[row >= 0], row[row >= 0]


class Tables(NamedTuple):
    """The tensors of an attention call: features, ids of active destinations, and edge bias."""

    query: Tensor  # (A, H, D)
    key: Tensor  # (N_src, H, D)
    value: Tensor  # (N_src, H, Dv)
    frontier: Tensor | None  # (A,) the destination of each query; None: 0, 1, 2, ...
    bias: Tensor | None  # (E, H) or (E, 1)


class ScalarArgs(NamedTuple):
    """The scalar arguments of an attention call."""

    scale: float
    dropout: float = 0.0
    seed: int = 0
    kernel: str = "fastest"  # one of KERNELS


class Gradients(NamedTuple):
    """Buffers that the kernels write gradients to."""

    key: Tensor  # as from `gradient_buffer`, as is `value`
    value: Tensor
    bias: Tensor  # (E, H), or empty if no gradient is needed


def forward(tables: Tables, parts: Sequence[Part], scalars: ScalarArgs) -> tuple[Tensor, Tensor]:
    """Return the output `(A, H, Dv)`, and the softmax maxima and inverse sums, `(A, H, 2)`."""
    tables = _readable(tables)
    query, key, value, *_ = tables
    softmax = query.new_empty(*query.shape[:2], 2, dtype=WIDE[query.dtype])
    out = value.new_empty(*query.shape[:2], value.shape[2])
    if parts[0].rows is not None:  # the results of no edges, for rows that the first part lacks
        out.zero_()
        softmax.copy_(softmax.new_tensor([torch.inf, 0]))
    library = _library()
    for number, part in enumerate(parts):
        call, rows = _part_call(tables, part, scalars, number)
        call.out, call.softmax = Rows.of(out, rows), softmax.data_ptr()
        if not library.forward(call, DTYPES[tables.query.dtype]):
            refuse_output(query, key, value)
    return out, softmax


def backward(
    out_grad: Tensor,
    out: Tensor,
    softmax: Tensor,
    tables: Tables,
    parts: Sequence[Part],
    scalars: ScalarArgs,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return the gradients of query, key, value and bias; None without a bias."""
    key, value, bias = tables.key, tables.value, tables.bias
    bias_grad = softmax.new_zeros(0 if bias is None else (bias.shape[0], key.shape[1]))
    sums = Gradients(gradient_buffer(key), gradient_buffer(value), bias_grad)
    query_grad = write_gradients(out_grad, out, softmax, tables, parts, scalars, sums, add=False)
    if bias is not None and bias.shape[1] == 1:  # one bias for all heads
        bias_grad = bias_grad.sum(1, keepdim=True)
    to_bias = None if bias is None else bias_grad
    return query_grad, trim_gradient(sums.key, key), trim_gradient(sums.value, value), to_bias


def write_gradients(
    out_grad: Tensor,
    out: Tensor,
    softmax: Tensor,
    tables: Tables,
    parts: Sequence[Part],
    scalars: ScalarArgs,
    sums: Gradients,
    *,
    add: bool,
) -> Tensor:
    """Return the gradient of the query; write those of the tables to `sums`, or `add` them."""
    tables, out_grad = _readable(tables), _unit_stride(out_grad)
    make = torch.empty_like if parts[0].rows is None else torch.zeros_like
    query_grad = make(tables.query, memory_format=torch.contiguous_format)
    for number, part in enumerate(parts):
        call, rows = _part_call(tables, part, scalars, number)
        call.out, call.out_grad = Rows.of(out, rows), Rows.of(out_grad, rows)
        call.softmax, call.query_grad = softmax.data_ptr(), Rows.of(query_grad, rows)
        call.key_grad = Rows.of(sums.key, part.order)
        call.value_grad = Rows.of(sums.value, part.order)
        call.bias_grad, call.adds = sums.bias.data_ptr(), add or number > 0
        _library().backward(call, DTYPES[tables.query.dtype])
    return query_grad


def _part_call(
    tables: Tables, part: Part, scalars: ScalarArgs, number: int
) -> tuple[Call, Tensor | None]:
    """Return the kernel's arguments for part `number`, without outputs, and its query rows."""
    query, key, value, frontier, bias = tables
    nodes, rows = part.select(frontier)
    # A copied template is several times as fast as a new structure, and a call is short.
    call = Call.from_buffer_copy(part.template)
    call.scale, call.kernel = scalars.scale, KERNELS[part.kernel or scalars.kernel]
    call.rows, call.heads, call.key_feats = query.shape
    call.sources, _, call.value_feats = value.shape
    call.threads = torch.get_num_threads()
    call.query = Rows.of(query, rows)
    call.key, call.value = Rows.of(key, part.order), Rows.of(value, part.order)
    if rows is not None:
        call.rows = len(rows)
    call.later = number > 0 or rows is not None
    if nodes is not None:
        call.frontier, call.nodes_of_frontier = nodes.data_ptr(), nodes  # kept until the call ends
    if bias is not None:
        call.bias, call.bias_heads = bias.data_ptr(), bias.shape[1]
    if scalars.dropout:
        call.keep, call.threshold = 1.0 - scalars.dropout, drop_below(scalars.dropout)
        call.seed = seed_hash(scalars.seed)
    return call, rows


def _readable(tables: Tables) -> Tables:
    """Return the tables, with copies of those whose strides the kernels do not support."""
    query, key, value, frontier, bias = tables
    return Tables(
        _unit_stride(query),
        _unit_stride(key),
        _unit_stride(value),
        None if frontier is None else frontier.contiguous(),
        None if bias is None else bias.contiguous(),
    )


def _unit_stride(table: Tensor) -> Tensor:
    """Return the table with features adjacent in memory, and without torch's lazy negative bit."""
    if table.stride(2) == 1 and not table.is_neg():
        return table
    return table.contiguous().resolve_neg()


def gradient_buffer(table: Tensor) -> Tensor:
    """Allocate a buffer for one gradient: float32 or wider, padded to whole vector registers."""
    lanes = _library().lanes(table.dtype)
    width = -(-table.shape[-1] // lanes) * lanes
    return table.new_empty(*table.shape[:-1], width, dtype=WIDE[table.dtype])


def trim_gradient(buffer: Tensor, like: Tensor) -> Tensor:
    """Return the gradient in one padded `buffer`, with the shape and dtype of the table `like`."""
    if buffer.shape != like.shape:
        buffer = buffer[..., : like.shape[-1]].contiguous()
    return buffer.to(like.dtype)


def _library() -> Library:
    library = kernel_library.LIBRARY
    if library is None:
        raise RuntimeError(
            "the compiled kernels are missing: install a C++ compiler, and then graphut again"
        )
    return library
