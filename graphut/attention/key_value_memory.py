"""A table of keys and values that is updated in place between reads, with exact gradients.

Autograd would copy the table at every write. Here a write saves the rows that it replaces, and the
backward pass restores them write by write, so memory grows with the number of written rows.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from graphut.attention import kernel_library
from graphut.attention.checks import refuse_output
from graphut.attention.first_derivatives import refuse_second_derivatives
from graphut.attention.kernel_library import DTYPES, Call, Rows
from graphut.attention.layout import EdgeLayout
from graphut.attention.native.attention import parts_of
from graphut.attention.native.ops import (
    KERNELS,
    WIDE,
    Gradients,
    Part,
    ScalarArgs,
    Tables,
    forward,
    gradient_buffer,
    trim_gradient,
    write_gradients,
)

# The frontier, the edges, and the factor of the scores.
_Edges: TypeAlias = tuple[Tensor | None, Sequence[Part], float]


class KeyValueMemory:
    """A table of keys and values that `write` changes in place, for the backend "native"."""

    def __init__(self, heads: int) -> None:
        self.heads = heads
        self._rows: Tensor | None = None  # (N, 2, H, D), until a write must be undone
        self._was_read = False  # whether a backward pass needs these rows
        self._table: _Table | None = None  # from the first write that must be undone
        # An empty tensor. Each write and read returns a new one, so that autograd runs them in
        # reverse order. None while there is no `_table`.
        self._chain: Tensor | None = None
        # What the last read needed of its edges: the layout, whether it had gradients, the parts.
        self._last: tuple[Any, ...] = (None, False, ())

    def write(self, nodes: Tensor | None, rows: Tensor) -> None:
        """Set keys and values of `nodes`, `(A,)`, to `rows`, `(A, 2 * H * D)`.

        If `nodes` is None, the memory stores `rows` itself and may overwrite it later.
        """
        count, width = rows.shape
        rows = rows.reshape(count, 2, self.heads, width // (2 * self.heads))
        tracked = rows.requires_grad and torch.is_grad_enabled()
        if self._chain is None:
            if nodes is None:
                self._rows, self._was_read = rows, False
                return
            assert self._rows is not None
            if not (tracked or self._was_read or self._rows.requires_grad):
                self._rows.index_copy_(0, nodes, rows)
                return
            # From now on, rows are replaced one by one. Earlier reads keep the original.
            self._chain, self._table = torch.empty(0), _Table()
            self._write(None, self._rows.clone())
        self._write(nodes, rows if tracked else rows.detach())

    def _write(self, nodes: Tensor | None, rows: Tensor) -> None:
        # The backward pass of an earlier read needs the replaced rows, even if the new rows have no
        # gradient.
        with torch.enable_grad():
            self._chain = _Write.apply(self._chain, rows, nodes, self._table)  # type: ignore[no-untyped-call]

    def attend(
        self, layout: EdgeLayout, query: Tensor, frontier: Tensor | None, scale: float
    ) -> Tensor:
        """Return the attention output `(A, H, D)` of query rows over the stored keys and values."""
        rows = self._rows if self._table is None else self._table.rows
        assert rows is not None
        if rows.dtype != query.dtype:
            raise TypeError(f"key is {rows.dtype}, but query is {query.dtype}")
        linked = rows if self._chain is None else self._chain
        tracked = torch.is_grad_enabled() and (query.requires_grad or linked.requires_grad)
        if self._last[:2] != (layout, tracked):
            self._last = layout, tracked, layout.cached(parts_of, tracked)
        if not tracked:
            return _forward(query, rows, frontier, self._last[2], scale)[0]
        edges = frontier, self._last[2], scale
        if self._chain is None:
            self._was_read = True
            out: Tensor = _ReadOnce.apply(rows, query, edges)  # type: ignore[no-untyped-call]
            return out
        out, self._chain = _Read.apply(self._chain, query, edges, self._table)  # type: ignore[no-untyped-call]
        return out


class _Table:
    """The keys and values of all nodes, the rows that each write replaced, and the gradients."""

    def __init__(self) -> None:
        self.rows: Tensor | None = None  # (N, 2, H, D)
        self.written = 0  # number of writes in the table
        self._replaced: list[tuple[Tensor | None, Tensor | None]] = []  # by write
        self._grads: Tensor | None = None
        self._grads_of = -1  # the backward pass that they belong to

    def write_and_record(self, nodes: Tensor | None, rows: Tensor) -> None:
        """Replace the rows of `nodes`, and save the old ones for the backward pass."""
        self._replaced.append((nodes, rows))
        self.restore(self.written + 1)

    def restore(self, written: int) -> None:
        """Restore the content that the table had after the first `written` writes."""
        while self.written > written:
            self.written -= 1
            self._swap(self.written)
        while self.written < written:
            self._swap(self.written)
            self.written += 1

    def _swap(self, write: int) -> None:
        """Exchange the rows of write number `write` with the saved ones; two calls cancel out."""
        nodes, rows = self._replaced[write]
        if nodes is None:
            self._replaced[write], self.rows = (None, self.rows), rows
            return
        assert self.rows is not None and rows is not None
        self._replaced[write] = nodes, self.rows.index_select(0, nodes)
        self.rows.index_copy_(0, nodes, rows)

    def open_grads(self) -> Tensor:
        """Return the buffer in which a backward pass sums the gradients of keys and values."""
        assert self.rows is not None
        # A new pass starts with zeros, because an earlier pass may have stopped half-way.
        this_pass = torch._C._current_graph_task_id()
        if self._grads is None or self._grads_of != this_pass:
            self._grads = gradient_buffer(self.rows).zero_()
        self._grads_of = this_pass
        return self._grads

    def take_grads(self, nodes: Tensor | None) -> Tensor:
        """Return the gradients of rows `nodes`, or of all rows if None; zero them in the buffer."""
        grads = self.open_grads()
        assert self.rows is not None
        if nodes is None:
            self._grads = None
            return trim_gradient(grads, self.rows)
        of_nodes = grads.index_select(0, nodes)
        grads.index_fill_(0, nodes, 0.0)
        return trim_gradient(of_nodes, self.rows)


class _Write(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, chain: Tensor, rows: Tensor, nodes: Tensor | None, table: _Table
    ) -> Tensor:
        ctx.nodes, ctx.table = nodes, table
        table.write_and_record(nodes, rows.detach())
        return chain.clone()

    @staticmethod
    def backward(ctx: Any, chain_grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        return chain_grad, ctx.table.take_grads(ctx.nodes), None, None


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, chain: Tensor, query: Tensor, edges: _Edges, table: _Table
    ) -> tuple[Tensor, Tensor]:
        assert table.rows is not None
        out, softmax = _forward(query, table.rows, *edges)
        ctx.edges, ctx.table, ctx.written = edges, table, table.written
        ctx.save_for_backward(query, out, softmax, chain)
        return out, chain.clone()

    @staticmethod
    def backward(ctx: Any, out_grad: Tensor, chain_grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        ctx.table.restore(ctx.written)
        query, out, softmax, _ = ctx.saved_tensors
        tables, sums = (ctx.table.rows, query), ctx.table.open_grads()
        query_grad = _backward(out_grad, out, softmax, tables, ctx.edges, sums, add=True)
        return chain_grad, query_grad, None, None


class _ReadOnce(torch.autograd.Function):
    """A read of a table that no later write changes; its gradient is a tensor of its own."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, query: Tensor, edges: _Edges) -> Tensor:
        out, softmax = _forward(query, rows, *edges)
        ctx.edges = edges
        ctx.save_for_backward(rows, query, out, softmax)
        return out

    @staticmethod
    def backward(ctx: Any, out_grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        rows, query, out, softmax = ctx.saved_tensors
        sums = gradient_buffer(rows)
        query_grad = _backward(out_grad, out, softmax, (rows, query), ctx.edges, sums, add=False)
        return trim_gradient(sums, rows), query_grad, None


def _forward(
    query: Tensor, table: Tensor, frontier: Tensor | None, parts: Sequence[Part], scale: float
) -> tuple[Tensor, Tensor]:
    """Return the output over a `table` of keys and values, `(N_src, 2, H, D)`, and the softmax."""
    part, (rows, heads, feats), dtype = parts[0], query.shape, query.dtype
    gaps = not (query.is_contiguous() and table.is_contiguous()) or query.is_neg() or table.is_neg()
    if gaps or part.rows is not None or len(parts) > 1 or table.shape[3] != feats:
        key, value = table.unbind(1)
        return forward(Tables(query, key, value, frontier, None), parts, ScalarArgs(scale))
    if (template := part.tables.get((heads, feats, scale))) is None:
        width, template = heads * feats, Call.from_buffer_copy(part.template)
        template.heads, template.key_feats, template.value_feats = heads, feats, feats
        template.scale, template.kernel = scale, KERNELS[part.kernel or "fastest"]
        template.query = template.out = Rows(None, width, feats, None)
        template.key = template.value = Rows(None, 2 * width, feats, None)
        part.tables[heads, feats, scale] = template
    softmax = query.new_empty((rows, heads, 2), dtype=WIDE[dtype])
    out, call, address = torch.empty_like(query), Call.from_buffer_copy(template), table.data_ptr()
    call.rows, call.sources, call.threads = rows, table.shape[0], torch.get_num_threads()
    call.query.data, call.key.data = query.data_ptr(), address
    call.value.data = address + heads * feats * table.element_size()
    call.out.data, call.softmax = out.data_ptr(), softmax.data_ptr()
    if frontier is not None:
        frontier = frontier.contiguous()
        call.frontier = frontier.data_ptr()
    library = kernel_library.LIBRARY
    assert library is not None
    if not library.forward(call, DTYPES[dtype]):
        refuse_output(query, *table.unbind(1))
    return out, softmax


def _backward(
    out_grad: Tensor,
    out: Tensor,
    softmax: Tensor,
    tables: tuple[Tensor, Tensor],
    edges: _Edges,
    sums: Tensor,
    *,
    add: bool,
) -> Tensor:
    """Return the query's gradient; write the gradient of keys and values to `sums`, or add it."""
    (rows, query), (frontier, parts, scale) = tables, edges
    (key, value), (key_grad, value_grad) = rows.unbind(1), sums.unbind(1)
    buffers = Gradients(key_grad, value_grad, softmax.new_empty(0))
    inputs = Tables(query, key, value, frontier, None)
    scalars = ScalarArgs(scale)
    return write_gradients(out_grad, out, softmax, inputs, parts, scalars, buffers, add=add)
