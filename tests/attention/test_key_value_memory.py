from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor

from graphut.attention import EdgeLayout, edge_attention
from graphut.attention.kernel_library import compiled
from graphut.attention.key_value_memory import KeyValueMemory
from graphut.topology import Causal, Complete
from tests.attention.naive import hubs
from tests.helpers import assert_same, gradients, normal

pytestmark = pytest.mark.skipif(compiled() is None, reason="the compiled kernels are not built")

HEADS = 2
GRAPHS = {
    "complete": Complete().layout([5, 1, 3]),
    "causal": Causal().layout([6, 3]),
    "rows": hubs(9, 9, 60),
}
# The nodes that each step writes, and the frontier that reads after it; `None` for all nodes.
STEPS = [(None, None), (None, [0, 2, 3, 5, 8]), ([0, 2, 3, 5, 8], [2, 3, 8]), ([2, 3, 8], [3])]


def rows_of(nodes: list[int] | None, table: Tensor) -> tuple[Tensor | None, Tensor]:
    index = None if nodes is None else torch.tensor(nodes)
    return index, table if index is None else table[index]


def in_place(layout: EdgeLayout, tables: list[Tensor], queries: list[Tensor]) -> list[Tensor]:
    memory = KeyValueMemory(HEADS)
    outs = []
    for (written, read), table, query in zip(STEPS, tables, queries, strict=True):
        memory.write(*rows_of(written, table * 1))
        frontier, rows = rows_of(read, query)
        outs.append(memory.attend(layout, rows, frontier, 0.5))
    return outs


def copied(layout: EdgeLayout, tables: list[Tensor], queries: list[Tensor]) -> list[Tensor]:
    outs, memory = [], tables[0]
    for (written, read), table, query in zip(STEPS, tables, queries, strict=True):
        nodes, rows = rows_of(written, table)
        memory = rows if nodes is None else memory.index_copy(0, nodes, rows)
        key, value = memory.unflatten(1, (2, HEADS, -1)).unbind(1)
        frontier, query_rows = rows_of(read, query)
        outs.append(
            edge_attention(
                layout, query_rows, key, value, frontier=frontier, scale=0.5, backend="dense"
            )
        )
    return outs


def drawn(layout: EdgeLayout, feats: int, dtype: torch.dtype = torch.float64) -> list[list[Tensor]]:
    nodes = layout.num_src
    tables = [normal(nodes, 2 * HEADS * feats, seed=i, dtype=dtype) for i in range(len(STEPS))]
    queries = [normal(nodes, HEADS, feats, seed=9 + i, dtype=dtype) for i in range(len(STEPS))]
    return [tables, queries]


@pytest.mark.parametrize("feats", [3, 8, 16])
@pytest.mark.parametrize("graph", GRAPHS)
def test_key_value_memory_is_as_a_copy_of_the_table_at_each_write(graph: str, feats: int) -> None:
    layout = GRAPHS[graph]
    tables, queries = drawn(layout, feats)
    found, expected = (run(layout, tables, queries) for run in (in_place, copied))
    assert_same(found, expected)
    inputs = tables + queries
    assert_same(gradients(found, inputs), gradients(expected, inputs))


def test_key_value_memory_with_outputs_that_nobody_uses() -> None:
    layout = GRAPHS["complete"]
    tables, queries = drawn(layout, 4)
    for used in ([0], [1, 2], [0, 3]):
        found, expected = (
            gradients([run(layout, tables, queries)[i] for i in used], tables + queries)
            for run in (in_place, copied)
        )
        assert_same(found, expected)


def test_key_value_memory_without_gradients_keeps_nothing() -> None:
    layout = GRAPHS["complete"]
    tables, queries = drawn(layout, 4)
    with torch.no_grad():
        found = in_place(layout, tables, queries)
    assert_same(found, copied(layout, tables, queries))
    assert not any(out.requires_grad for out in found)


def test_key_value_memory_sums_bfloat16_gradients_in_float32() -> None:
    layout = Complete().layout([9])
    wide = drawn(layout, 4)
    narrow = drawn(layout, 4, torch.bfloat16)
    expected = gradients(copied(layout, *wide), wide[0])
    found = gradients(in_place(layout, *narrow), narrow[0])
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == torch.bfloat16
        assert (a.double() - b).norm() <= 0.02 * b.norm()


def test_key_value_memory_is_gone_with_its_graph() -> None:
    """No cycle of references keeps the rows until the garbage collector comes."""
    layout = GRAPHS["complete"]
    tables, queries = drawn(layout, 4)
    memory = KeyValueMemory(HEADS)
    memory.write(None, tables[0])
    memory.write(torch.tensor([1]), tables[1][:1])
    out = memory.attend(layout, queries[0], None, 0.5)
    table = weakref.ref(memory._table)
    gc.disable()
    try:
        del memory
        assert table() is not None  # the backward pass needs it
        del out
        assert table() is None
    finally:
        gc.enable()


def test_key_value_memory_may_be_read_twice_between_two_writes() -> None:
    layout = GRAPHS["complete"]
    [table, *_], queries = drawn(layout, 4)
    memory = KeyValueMemory(HEADS)
    memory.write(None, table * 1)
    found = [memory.attend(layout, query, None, 0.5) for query in queries]
    key, value = table.unflatten(1, (2, HEADS, -1)).unbind(1)
    expected = [
        edge_attention(layout, query, key, value, scale=0.5, backend="dense") for query in queries
    ]
    inputs = [table, *queries]
    assert_same(gradients(found, inputs), gradients(expected, inputs))


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
def test_key_value_memory_untracked_writes_keep_what_tracked_reads_need(grad: bool) -> None:
    layout = GRAPHS["causal"]
    tables, queries = drawn(layout, 4)
    tables = [tables[0], *(table.detach() for table in tables[1:])]
    memory, outs = KeyValueMemory(HEADS), []
    for (written, read), table, query in zip(STEPS, tables, queries, strict=True):
        with torch.set_grad_enabled(grad or table is tables[0]):
            memory.write(*rows_of(written, table * 1))
        frontier, rows = rows_of(read, query)
        outs.append(memory.attend(layout, rows, frontier, 0.5))
    expected = copied(layout, tables, queries)
    inputs = [tables[0], *queries]
    assert_same(outs, expected)
    assert_same(gradients(outs, inputs), gradients(expected, inputs))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_key_value_memory_refuses_a_query_of_another_dtype(dtype: torch.dtype) -> None:
    """An adapter of the query map may return another dtype than the map of keys and values."""
    layout = GRAPHS["complete"]
    [table, *_], [query, *_] = drawn(layout, 4, torch.float32)
    memory = KeyValueMemory(HEADS)
    memory.write(None, table)
    with pytest.raises(TypeError, match=f"key is torch.float32, but query is {dtype}"):
        memory.attend(layout, query.to(dtype), None, 0.5)
    with torch.no_grad(), pytest.raises(TypeError, match=str(dtype)):
        memory.attend(layout, query.to(dtype), None, 0.5)


def test_key_value_memory_begins_each_backward_pass_anew() -> None:
    layout = GRAPHS["causal"]
    tables, queries = drawn(layout, 4)
    outs, inputs = in_place(layout, tables, queries), tables + queries
    expected = gradients(copied(layout, tables, queries), inputs)
    loss = sum(out.square().sum() for out in outs)
    first = torch.autograd.grad(loss, inputs, retain_graph=True)
    assert_same(torch.autograd.grad(loss, inputs, retain_graph=True), first, tolerance=0.0)
    for some in (queries, tables[-1:], tables[3:] + queries[3:]):  # the last ends half-way
        torch.autograd.grad(outs[3].sum(), some, retain_graph=True, allow_unused=True)
    assert_same(gradients(outs, inputs), expected)
