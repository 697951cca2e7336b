"""Keys and values that a recurrence writes in place, in the kernels that read them there."""

import gc
import weakref
from typing import Any

import pytest
import torch

from graphut.attention.kernel_library import LIBRARY
from graphut.attention.key_value_memory import KeyValueMemory
from graphut.topology import Complete
from tests.helpers import assert_same, covering, gradients, name_of, normal
from tests.nn.cases import (
    build_case,
    engine,
    modes_of,
)
from tests.nn.reference import dense_recurrence

pytestmark = pytest.mark.skipif(LIBRARY is None, reason="the compiled kernels are not built")


@pytest.mark.parametrize(
    "row", covering(**modes_of("halted", "norm", "weighting", "form")), ids=name_of
)
def test_key_value_memory_begins_each_backward_pass_anew(row: dict[str, Any]) -> None:
    case = build_case(**row)
    leaves, calls = case.inputs, []
    for recurrence in (engine, dense_recurrence):
        out, _, _, cost = recurrence(case.layer, case.graph, case.feat, **case.arguments)
        calls.append([out, cost])
    loss = calls[0][0].square().sum() + calls[0][1]
    first = torch.autograd.grad(loss, leaves, retain_graph=True)
    assert_same(torch.autograd.grad(loss, leaves, retain_graph=True), first, tolerance=0.0)
    attention = case.layer.step.attention
    for some in ([attention.output.weight], [attention.query.weight], [case.feat]):
        found = torch.autograd.grad(calls[0][0][0].sum(), some, retain_graph=True)
        assert_same(found, torch.autograd.grad(calls[1][0][0].sum(), some, retain_graph=True))
    assert_same(gradients(calls[0], leaves), gradients(calls[1], leaves))
    with torch.no_grad():
        found = engine(case.layer, case.graph, case.feat, **case.arguments)
    assert not found[0].requires_grad
    assert_same([found[0]], calls[1][:1])


def test_key_value_memory_is_gone_with_its_graph() -> None:
    """No cycle of references keeps the rows until the garbage collector comes."""
    layout, memory = Complete().layout([5, 1, 3]), KeyValueMemory(2)
    rows, query = normal(9, 16), normal(9, 2, 4)
    memory.write(None, rows)
    memory.write(torch.tensor([1]), normal(1, 16))
    out = memory.attend(layout, query, None, 0.5)
    table = weakref.ref(memory._table)
    gc.disable()
    try:
        del memory
        assert table() is not None  # the backward pass needs it
        del out
        assert table() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("grad", [True, False])
def test_key_value_memory_refuses_a_query_of_another_dtype(grad: bool, dtype: torch.dtype) -> None:
    """An adapter of the query map may return another dtype than the map of keys and values."""
    case = build_case().to(torch.float32)
    query = case.layer.step.attention.query
    query.register_forward_hook(lambda module, args, out: out.to(dtype))
    with (
        torch.set_grad_enabled(grad),
        pytest.raises(TypeError, match=f"key is torch.float32, but query is {dtype}"),
    ):
        case.layer(case.graph, case.feat)
