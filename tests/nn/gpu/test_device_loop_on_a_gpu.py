from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.nn import EventDriven, Quantized
from graphut.nn.call import begin_call, choose_backend
from tests.helpers import assert_same, name_of, no_device_waits, normal
from tests.nn.cases import FEATS, PAIRS, build_case, engine
from tests.nn.reference import dense_event_driven, dense_recurrence
from tests.nn.test_waking import GRAPHS, build, event_driven

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("modes", PAIRS, ids=name_of)
def test_recurrence_on_a_gpu(modes: dict[str, Any]) -> None:
    """Results are correct, also of CUDA graphs, and a recurrence with a program never waits."""
    case = build_case(**modes).to(torch.float32)
    expected = case.run(dense_recurrence)
    case = case.to("cuda")

    def on_host(*arguments: Any, **options: Any) -> list[Tensor]:
        return [x.cpu() for x in engine(*arguments, **options)]

    for _ in range(3):  # the first run compiles, and from the second on graphs are replayed
        assert_same([x.cpu() for x in case.run(on_host)], expected, 1e-4)
    call = begin_call(case.layer, case.graph, case.feat, **case.arguments)
    choose_backend(call)
    if call.program is None:
        return
    with no_device_waits():
        out, _, rest, _ = engine(case.layer, case.graph, case.feat, **case.arguments)
        torch.autograd.grad(out.sum() + rest.sum(), case.inputs, allow_unused=True)


def test_recurrence_with_dropout_draws_a_new_mask_in_each_replay() -> None:
    case = build_case().to(torch.float32).to("cuda")
    case.layer.step.dropout.p = 0.5
    outs = [engine(case.layer, case.graph, case.feat, **case.arguments)[0] for _ in range(3)]
    assert not torch.equal(outs[0], outs[1]) and not torch.equal(outs[1], outs[2])


@pytest.mark.parametrize("graph", GRAPHS)
def test_nodes_wake_on_a_gpu(graph: str) -> None:
    layer = build(rule=EventDriven(0.0, 20), quantize=Quantized(2)).float()
    feat = normal(GRAPHS[graph].num_src, FEATS, seed=60, dtype=torch.float32).detach()
    with torch.no_grad():
        expected = dense_event_driven(layer, GRAPHS[graph], feat)
        found = event_driven(layer.to("cuda"), GRAPHS[graph], feat.to("cuda"))
    assert_same([x.cpu() for x in found], expected, 1e-4)
