from typing import Any

import pytest
import torch
from torch._dynamo.exc import Unsupported
from torch.autograd.graph import saved_tensors_hooks

from graphut.nn import LayerAsConv, ScheduledHalting
from tests.helpers import assert_same, covering, gradients, name_of, normal
from tests.nn.cases import HALTED, MODES, Case, build_case, engine, halve

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


def test_recurrence_with_a_frontier_cannot_be_exported() -> None:
    case = build_case()
    with pytest.raises(RuntimeError, match=r"torch.export cannot record how many nodes halt"):
        torch.export.export(LayerAsConv(case.layer), (case.graph, case.feat), strict=False)


# The compiler looks at the gradients of the results of an uncompiled part.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_recurrence_with_a_frontier_breaks_a_compiled_program() -> None:
    case = build_case()
    assert_same_when_compiled(case, "eager", fullgraph=False)
    with pytest.raises(Unsupported, match=r"the host must know in each step which nodes halt"):
        assert_same_when_compiled(case, "eager")


# Steps that are done again in the backward pass.

AGAIN = covering(
    halted=HALTED,
    norm=MODES["norm"],
    form=MODES["form"],
    transition=MODES["transition"],
    topology=("complete", "rows"),
    relative=(False, True),
    hooked=(False, True),
)


@pytest.mark.parametrize("modes", AGAIN, ids=name_of)
def test_recurrence_checkpointed_steps_give_the_same(modes: dict[str, Any]) -> None:
    modes = dict(modes)
    hooked, results = modes.pop("hooked"), []
    for again in (False, True):
        case = build_case(**modes, checkpoint_steps=again)
        step = case.layer.step
        step.dropout.p = step.attention.attn_drop = 0.3
        if hooked:
            step.attention.register_forward_hook(halve)
        results.append(case.run(engine))
    assert_same(*results)


def test_recurrence_checkpointed_steps_with_all_that_a_call_can_ask_for() -> None:
    results, feat = [], normal(24, 3, seed=9)
    for again in (False, True):
        case = build_case(edge_dim=3, topology="window", form="decoder", checkpoint_steps=again)
        given = {**case.arguments, "edge_feat": feat, "get_attention": True, "get_steps": True}
        out, ponder, weights, rows = case.layer(case.graph, case.feat, **given)
        states = [own.states for own in rows]
        once = torch.autograd.grad(out.square().sum(), feat, retain_graph=True)
        grads = gradients([out, ponder.cost, *weights, *states], [*case.inputs, feat])
        work = [ponder.computed, ponder.edges, torch.tensor(len(ponder.work.projections))]
        results.append([out, *weights, *states, *once, *grads, *work])
    assert_same(*results)


def saved_numbers(case: Case) -> int:
    """Count the numbers that the backward pass of a recurrence keeps."""
    counts = []
    with saved_tensors_hooks(lambda x: counts.append(x.numel()) or x, lambda x: x):
        case.layer(case.graph, case.feat, **case.arguments)
    return sum(counts)


@pytest.mark.parametrize("halted", [*HALTED, "fixed"])
def test_recurrence_checkpointed_steps_keep_states_alone(halted: str) -> None:
    growth = {}
    for again in (False, True):
        kept = []
        for cap in (3, 7):
            halting = ScheduledHalting(torch.tensor([9] * 10))
            options = {"rule": "fixed"} if halted == "fixed" else {"halted": halted}
            case = build_case(halting=halting, max_steps=cap, checkpoint_steps=again, **options)
            kept.append(saved_numbers(case))
        growth[again] = (kept[1] - kept[0]) / 4 / case.feat.numel()
    assert growth[True] <= 3 < 12 < growth[False]


def test_recurrence_without_gradients_no_step_is_done_again(edges_seen: list[int]) -> None:
    case = build_case(checkpoint_steps=True)
    with torch.no_grad():
        _, ponder = case.layer(case.graph, case.feat)
    assert sum(edges_seen) == int(ponder.edges)
    assert int(ponder.projected) < case.graph.num_src * int(ponder.steps.max())
    out, ponder = case.layer(case.graph, case.feat)
    edges_seen.clear()
    out.sum().backward()
    assert sum(edges_seen) == int(ponder.edges)
