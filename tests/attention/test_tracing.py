from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphut.nn import MultiHeadAttention
from graphut.nn.aggregation import neighbor_sum
from graphut.topology import Causal
from tests.helpers import assert_same, gradients, normal
from tests.nn.cases import FEATS, build_case

LAYOUT = Causal().layout([5, 3])
ATTENTION, RECURRENCE = MultiHeadAttention(FEATS, 2).double(), build_case().layer
CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "attention": lambda x: ATTENTION(LAYOUT, x),
    "neighbor_sum": lambda x: neighbor_sum(LAYOUT, x),
    "recurrence": lambda x: RECURRENCE(LAYOUT, x)[0],
}


# The compiler looks at the gradients of the results of an uncompiled part.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("compiler", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", CALLS)
def test_uncompiled_functions_break_a_compiled_program(name: str, compiler: str) -> None:
    torch._dynamo.reset()
    call, feat = CALLS[name], normal(8, FEATS)

    def run(x: Tensor) -> Tensor:
        return call(x.sin()).tanh()

    found = torch.compile(run, backend=compiler)(feat)
    expected = run(feat)
    assert_same([found, *gradients([found], [feat])], [expected, *gradients([expected], [feat])])
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="graphs are not compiled"):
        torch.compile(run, backend=compiler, fullgraph=True)(feat)
