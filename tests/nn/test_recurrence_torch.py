from typing import Any

import pytest
import torch
from torch._dynamo.exc import Unsupported

from tests.helpers import assert_same, gradients, name_of
from tests.nn.cases import Case, build_case, engine

# Programs of torch.compile.


def assert_same_when_compiled(case: Case, compiler: str, *, fullgraph: bool = True) -> None:
    torch._dynamo.reset()
    call = torch.compile(engine, fullgraph=fullgraph, backend=compiler)
    results = []
    for run in (engine, call):
        found = run(case.layer, case.graph, case.feat, **case.arguments)
        out, _, rest, cost = found
        results.append([*found, *gradients([out, rest, cost], case.inputs)])
    assert_same(*results)


# What inductor itself uses, torch has deprecated.
OWN = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
COMPILERS = ["aot_eager", pytest.param("inductor", marks=[pytest.mark.full, OWN])]
# Compiling takes seconds: few rows, in which a factor may always come with another.
WHOLE = [
    {"rule": "fixed", "norm": "pre", "form": "decoder", "topology": "rows"},
    {"halted": "running", "norm": "post", "transition": "sepconv", "topology": "causal"},
]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("modes", WHOLE, ids=name_of)
def test_recurrence_compiles_as_a_whole_where_the_host_asks_for_nothing(
    modes: dict[str, Any], compiler: str
) -> None:
    assert_same_when_compiled(build_case(**modes, max_steps=2), compiler)


# The compiler looks at the gradients of the results of an uncompiled part.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_recurrence_with_a_frontier_breaks_a_compiled_program() -> None:
    case = build_case()
    assert_same_when_compiled(case, "eager", fullgraph=False)
    with pytest.raises(Unsupported, match=r"the host must know in each step which nodes halt"):
        assert_same_when_compiled(case, "eager")
