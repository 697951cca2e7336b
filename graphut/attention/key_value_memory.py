"""A table of keys and values that is written in place, with exact gradients.

Autograd would copy the table in every write. Here a write saves the rows that it replaces, and the
backward pass restores them one write after the other. Memory grows with the number of written rows,
not with steps times nodes. The gradient of the table is accumulated in place too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from graphut.attention.backend import InPlaceKernels
from graphut.attention.backends import choose
from graphut.attention.call import AttentionCall
from graphut.attention.checks import check_dtypes
from graphut.attention.layout import EdgeLayout
from graphut.attention.second_derivatives import refuse_second_derivatives
from graphut.attention.transforms import in_transform

_KERNELS = "attention that reads keys and values in place"  # for an error message


class KeyValueMemory:
    """A table of keys and values, with the methods `write` and `attend`."""

    def __init__(self, heads: int, kernels: InPlaceKernels) -> None:
        self.heads = heads
        self._table = _Table(kernels)
        # An empty tensor that is passed from each write or read to the next, so that the backward
        # pass visits them in reverse order.
        self._chain = torch.empty(0)

    def write(self, nodes: Tensor | None, rows: Tensor) -> None:
        """Replace the keys and values of `nodes`, `(A,)`, or of all nodes, by `(A, 2 H D)` rows.

        Rows of all nodes become the table, so the caller must not use them again.
        """
        recorded = self._chain.requires_grad
        tracked = torch.is_grad_enabled() and rows.requires_grad
        rows = rows.unflatten(1, (2, self.heads, -1))
        if not (tracked or recorded):
            self._table.write(nodes, rows)
            return
        # The backward pass of earlier reads needs the replaced rows, even if the new rows have no
        # gradient.
        with torch.enable_grad():
            self._chain = _Write.apply(  # type: ignore[no-untyped-call]
                self._chain, rows if tracked else rows.detach(), nodes, self._table
            )

    def attend(
        self, layout: EdgeLayout, query: Tensor, frontier: Tensor | None, scale: float
    ) -> Tensor:
        """Return attention `(A, H, D)` of the query rows of a frontier over the table.

        Raise `TypeError` if the dtypes differ, because the kernels read raw memory.
        """
        key, value = self._table.key_value()
        check_dtypes(query, key, value)
        call = AttentionCall(
            layout=layout, query=query, key=key, value=value, frontier=frontier, scale=scale
        )
        if not (torch.is_grad_enabled() and (query.requires_grad or self._chain.requires_grad)):
            return self._table.kernels.forward(call)[0]
        out, self._chain = _Read.apply(  # type: ignore[no-untyped-call]
            self._chain, query, call, self._table
        )
        return out


def memory_for(backend: str, layout: EdgeLayout, heads: int, like: Tensor) -> KeyValueMemory | None:
    """Return a memory if the backend for features like `like` supports it, else None."""
    if layout.has_empty_rows or torch.compiler.is_compiling() or in_transform():
        return None
    kernels = choose(backend, empty_call(layout, heads, like)).in_place
    return None if kernels is None else KeyValueMemory(heads, kernels)


def empty_call(layout: EdgeLayout, heads: int, like: Tensor) -> AttentionCall:
    """Return a call without rows, with the dtype and device of `like`, to choose a backend."""
    device = like.device.type
    autocast = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if autocast else like.dtype
    rows = like.new_empty(0, heads, 1, dtype=dtype)
    return AttentionCall(layout=layout, query=rows, key=rows, value=rows)


class _Table:
    """The rows of the table, the rows that each write replaced, and the gradients.

    With the replaced rows, the backward pass brings the table back to the state that each read saw.
    """

    def __init__(self, kernels: InPlaceKernels) -> None:
        self.kernels = kernels
        self.rows: Tensor | None = None  # (N, 2, H, D)
        self.written = 0  # writes that are in the table now
        self._replaced: list[tuple[Tensor | None, Tensor | None]] = []  # by write
        self._grads: Tensor | None = None
        self._grads_of = -1  # id of the backward pass that they belong to

    def key_value(self) -> tuple[Tensor, Tensor]:
        assert self.rows is not None
        key, value = self.rows.unbind(1)
        return key, value

    def write(self, nodes: Tensor | None, rows: Tensor) -> None:
        """Replace rows that no backward pass needs."""
        if nodes is None:
            self.rows = rows
        else:
            assert self.rows is not None
            self.rows.index_copy_(0, nodes, rows)

    def write_and_record(self, nodes: Tensor | None, rows: Tensor) -> None:
        """Replace rows, and save the replaced ones."""
        self._replaced.append((nodes, rows))
        self._swap(self.written)
        self.written += 1

    def restore(self, written: int) -> None:
        """Bring the table to its state after `written` writes."""
        while self.written > written:
            self.written -= 1
            self._swap(self.written)
        while self.written < written:
            self._swap(self.written)
            self.written += 1

    def _swap(self, write: int) -> None:
        """Exchange the written rows with the saved ones; calling it twice restores the table."""
        nodes, rows = self._replaced[write]
        if nodes is None:
            self._replaced[write], self.rows = (None, self.rows), rows
            return
        assert self.rows is not None and rows is not None
        self._replaced[write] = nodes, self.rows.index_select(0, nodes)
        self.rows.index_copy_(0, nodes, rows)

    def open_grads(self) -> Tensor:
        """Return the gradients that the reads of a backward pass add to.

        Each pass begins with zeros, because an earlier one may have been interrupted.
        """
        assert self.rows is not None
        this_pass = torch._C._current_graph_task_id()
        if self._grads is None or self._grads_of != this_pass:
            self._grads = self.kernels.zero_gradients(self.rows)
        self._grads_of = this_pass
        return self._grads

    def take_grads(self, nodes: Tensor | None) -> Tensor:
        """Return the gradients of the rows of a write, and zero them for earlier writes."""
        grads = self.open_grads()
        assert self.rows is not None
        if nodes is None:
            self._grads = None
            return self.kernels.trim_gradients(grads, self.rows)
        taken = grads.index_select(0, nodes)
        grads.index_fill_(0, nodes, 0.0)
        return self.kernels.trim_gradients(taken, self.rows)


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
        # The chain leads to all rows and queries.
        return *refuse_second_derivatives(_KERNELS, grads, [chain_grad]), None, None


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, chain: Tensor, query: Tensor, call: AttentionCall, table: _Table
    ) -> tuple[Tensor, Tensor]:
        out, softmax = table.kernels.forward(call)
        # A query with history would keep the autograd graph alive.
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
        backward = ctx.table.kernels.backward
        with torch.no_grad():
            query_grad = backward(call, out_grad, out, softmax, key_grad, value_grad)
        inputs += out_grad, chain_grad
        return *refuse_second_derivatives(_KERNELS, (chain_grad, query_grad), inputs), None, None
