"""A table of keys and values that is updated in place between calls, with exact gradients.

Autograd would copy the table at every write. Here a write saves the rows that it replaces, and the
backward pass restores them write by write: memory grows with the number of written rows, not with
steps times nodes. The gradient of the table is accumulated in place too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from graphut.attention.argument_checks import check_dtypes
from graphut.attention.backend import AttentionCall
from graphut.attention.functorch import in_transform
from graphut.attention.layout import EdgeLayout
from graphut.attention.native.attention import NATIVE, backward_in_place, forward_in_place
from graphut.attention.native.ops import gradient_buffer, trim_gradient
from graphut.attention.registry import choose
from graphut.attention.second_derivatives import refuse_second_derivatives

_NAME = "attention over keys and values in place"


class KeyValueMemory:
    """A cache of the keys and values of all nodes, for attention by the backend "native".

    Between calls of `attend`, `write` overwrites the rows of some nodes in place, instead of making
    a new tensor. The backward pass undoes the writes one by one, so gradients are exact.
    """

    def __init__(self, heads: int) -> None:
        self.heads = heads
        self._table = _Table()
        # An empty tensor. Each write and read returns a new one, so that autograd runs them in
        # reverse order.
        self._chain = torch.empty(0)

    def write(self, nodes: Tensor | None, rows: Tensor) -> None:
        """Set the keys and values of `nodes`, `(A,)`, or of all nodes if None, to `rows`.

        `rows` is `(A, 2 * H * D)`: all heads of the key, then of the value. If `nodes` is None, the
        memory stores `rows` itself and may overwrite it later, so do not use it again.
        """
        recorded = self._chain.requires_grad
        tracked = torch.is_grad_enabled() and rows.requires_grad
        rows = rows.unflatten(1, (2, self.heads, -1))
        if not (tracked or recorded):
            self._table.write(nodes, rows)
            return
        # The backward pass of an earlier read needs the replaced rows, even if the new rows have no
        # gradient.
        with torch.enable_grad():
            self._chain = _Write.apply(  # type: ignore[no-untyped-call]
                self._chain, rows if tracked else rows.detach(), nodes, self._table
            )

    def attend(
        self, layout: EdgeLayout, query: Tensor, frontier: Tensor | None, scale: float
    ) -> Tensor:
        """Return the attention output `(A, H, D)` of query rows over the stored keys and values.

        Raise `TypeError` if the dtypes of the query and of the stored keys differ.
        """
        key, value = self._table.key_value()
        check_dtypes(query, key, value)
        call = AttentionCall(
            layout=layout, query=query, key=key, value=value, frontier=frontier, scale=scale
        )
        if not (torch.is_grad_enabled() and (query.requires_grad or self._chain.requires_grad)):
            return forward_in_place(call)[0]
        out, self._chain = _Read.apply(  # type: ignore[no-untyped-call]
            self._chain, query, call, self._table
        )
        return out


def memory_for(backend: str, layout: EdgeLayout, heads: int, like: Tensor) -> KeyValueMemory | None:
    """Return a `KeyValueMemory` if the backend "native" computes calls on this layout, else None.

    `backend` is a name or `"auto"`. `like` is a tensor with the device and dtype of the features.
    """
    if layout.has_empty_rows or torch.compiler.is_compiling() or in_transform():
        return None
    chosen = choose(backend, empty_call(layout, heads, like))
    return KeyValueMemory(heads) if chosen.name == NATIVE.name else None


def empty_call(layout: EdgeLayout, heads: int, like: Tensor) -> AttentionCall:
    """Return an `AttentionCall` without rows, to find the backend for calls with this layout.

    `like` is a tensor with the device and dtype of the features.
    """
    device = like.device.type
    autocast = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if autocast else like.dtype
    rows = like.new_empty(0, heads, 1, dtype=dtype)
    return AttentionCall(layout=layout, query=rows, key=rows, value=rows)


class _Table:
    """The keys and values of all nodes, the rows that each write replaced, and the gradients.

    A backward pass visits the calls of attention from last to first. Before each, it restores the
    table that this call has read.
    """

    def __init__(self) -> None:
        self.rows: Tensor | None = None  # (N, 2, H, D)
        self.written = 0  # number of writes in the table
        self._replaced: list[tuple[Tensor | None, Tensor | None]] = []  # by write
        self._grads: Tensor | None = None
        self._grads_of = -1  # the backward pass that they belong to

    def key_value(self) -> tuple[Tensor, Tensor]:
        assert self.rows is not None
        return self.rows[:, 0], self.rows[:, 1]

    def write(self, nodes: Tensor | None, rows: Tensor) -> None:
        """Replace the rows of `nodes`, or all rows if None, without saving the old ones."""
        if nodes is None:
            self.rows = rows
        else:
            assert self.rows is not None
            self.rows.index_copy_(0, nodes, rows)

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
        """Return the buffer in which a backward pass sums the gradients of keys and values.

        A new pass starts with zeros, because an earlier pass may have stopped half-way.
        """
        assert self.rows is not None
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
        taken = grads.index_select(0, nodes)
        grads.index_fill_(0, nodes, 0.0)
        return trim_gradient(taken, self.rows)


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
        grads = chain_grad, ctx.table.take_grads(ctx.nodes)
        # All rows and queries are reached through the chain.
        return *refuse_second_derivatives(_NAME, grads, [chain_grad]), None, None


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, chain: Tensor, query: Tensor, call: AttentionCall, table: _Table
    ) -> tuple[Tensor, Tensor]:
        out, softmax = forward_in_place(call)
        # Detached, because the history of the query would keep the whole graph alive.
        ctx.call, ctx.table, ctx.written = replace(call, query=query.detach()), table, table.written
        ctx.save_for_backward(out, softmax, chain, query)
        return out, chain.clone()

    @staticmethod
    def backward(ctx: Any, out_grad: Tensor, chain_grad: Tensor) -> tuple[Tensor | None, ...]:
        ctx.table.restore(ctx.written)
        key, value = ctx.table.key_value()
        call = replace(ctx.call, key=key, value=value)
        key_grad, value_grad = ctx.table.open_grads().unbind(1)
        out, softmax, *inputs = ctx.saved_tensors
        with torch.no_grad():
            query_grad = backward_in_place(call, out_grad, out, softmax, key_grad, value_grad)
        inputs += out_grad, chain_grad
        return *refuse_second_derivatives(_NAME, (chain_grad, query_grad), inputs), None, None
