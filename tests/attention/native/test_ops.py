import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from graphut.attention import EdgeLayout, edge_attention
from graphut.attention.kernel_library import LIBRARY
from graphut.attention.native.attention import edge_tensors
from graphut.attention.native.ops import edge_attention_backward_op, edge_attention_op
from graphut.nn import MultiHeadAttention
from graphut.topology import Causal
from tests.attention.naive import hubs
from tests.helpers import assert_same, gradients, normal, refuses

pytestmark = pytest.mark.skipif(LIBRARY is None, reason="the compiled kernels are not built")

# Made anew for each test: nothing may have been worked out of them before.
GRAPHS: dict[str, Callable[[], EdgeLayout]] = {
    "intervals": lambda: Causal().layout([5, 3]),
    "rows": lambda: hubs(8, 8, 40),
}


def arguments(layout: EdgeLayout, frontier: Tensor | None, bias: Tensor | None) -> tuple[Any, ...]:
    kernel = "rows" if layout.num_edges == 40 else "fastest"
    return frontier, bias, *edge_tensors(layout), 0.5, 0.1, 3, kernel


@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("graph", GRAPHS)
def test_edge_attention_ops_pass_opcheck(graph: str, some: bool) -> None:
    layout = GRAPHS[graph]()
    frontier = torch.tensor([0, 2, 7]) if some else None
    bias = normal(layout.num_edges, 2, seed=4) if some else None
    inputs = [normal(n, 2, 8, seed=n) for n in (3 if some else 8, 8, 8)]
    others = arguments(layout, frontier, bias)
    torch.library.opcheck(edge_attention_op, (*inputs, *others))
    out, softmax = edge_attention_op(*(x.detach() for x in inputs), *others)
    given = [x.detach() for x in (torch.ones_like(out), out, softmax, *inputs)]
    others = tuple(x.detach() if isinstance(x, Tensor) else x for x in others)
    torch.library.opcheck(edge_attention_backward_op, (*given, *others))


def same_when_compiled(run: Callable[..., Tensor], leaves: list[Tensor], compiler: str) -> None:
    torch._dynamo.reset()
    found = torch.compile(run, fullgraph=True, backend=compiler)(*leaves)
    grads = gradients([found], leaves)
    expected = run(*leaves)
    assert_same([found, *grads], [expected, *gradients([expected], leaves)])


# What inductor itself uses, torch has deprecated.
OWN = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
COMPILERS = ["aot_eager", pytest.param("inductor", marks=[pytest.mark.full, OWN])]


# Dynamo instantiates autograd functions.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_layer_on_edge_attention_op_compiles(graph: str, compiler: str) -> None:
    layout, feat = GRAPHS[graph](), normal(8, 8)
    attention = MultiHeadAttention(8, 2, allow_zero_in_degree=True).double()
    run = partial(attention, layout, frontier=torch.tensor([1, 4]))
    same_when_compiled(run, [feat], compiler)
    if graph == "rows" and compiler == "aot_eager":
        same_when_compiled(lambda x: attention(layout, x, get_attention=True)[1], [feat], compiler)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_edge_attention_op_refuses_in_a_compiled_program(compiler: str) -> None:
    torch._dynamo.reset()
    layout, query = GRAPHS["rows"](), normal(8, 2, 4, dtype=torch.float32).detach()
    options = {"fullgraph": True, "backend": compiler}
    run = torch.compile(lambda x: edge_attention(layout, x, x, x, backend="native"), **options)
    refuses(r"query\[3, 0, 0\] is nan", run, query.index_fill(0, torch.tensor(3), math.nan))
    refuses(r"overflow torch\.float32: scale", run, 1e25 * query)


class Recorder(TorchDispatchMode):
    """Record the names of graphut's operators."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names = [*getattr(self, "names", []), func.name()]
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("graph", GRAPHS)
def test_native_attention_is_an_operator_where_calls_are_recorded(graph: str) -> None:
    layout, query = GRAPHS[graph](), normal(8, 2, 4)
    options = {"allow_zero_in_degree": True, "backend": "native"}
    with Recorder() as recorder:
        edge_attention(layout, *[query] * 3, **options).sum().backward()
    own = {"graphut::edge_attention", "graphut::edge_attention_backward"}
    assert {name for name in recorder.names if name.startswith("graphut")} == own


def test_attention_refuses_second_derivatives() -> None:
    layout, query = GRAPHS["rows"](), normal(8, 2, 3)
    for backend in ("native", "dgl"):
        out = edge_attention(layout, query, query, query, backend=backend)
        with pytest.raises(RuntimeError, match="kernels and DGL have no second derivatives"):
            torch.autograd.grad(out.square().sum(), query, create_graph=True)
