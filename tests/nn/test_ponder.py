import warnings
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from graphut.nn import ScheduledHalting
from tests.nn.cases import build_case


@pytest.mark.parametrize("modes", [{"halted": "stale"}, {"halted": "frozen", "norm": "pre"}])
def test_flops_are_those_that_torch_counts(modes: dict[str, Any]) -> None:
    halting = ScheduledHalting(torch.tensor([1, 2, 1, 5, 3]))
    case = build_case(**modes, lengths=[5], halting=halting)
    case.layer.step.attention.backend = "dense"  # on a complete graph no score is masked
    with FlopCounterMode(display=False) as counter:
        _, ponder = case.layer(case.graph, case.feat, **case.arguments)
    assert counter.get_total_flops() == int(ponder.flops)


@pytest.mark.parametrize("halted", ["copied", "stale", "running"])
def test_ponder_when_nobody_halts_everything_is_done(halted: str) -> None:
    case = build_case(halted=halted, halting=ScheduledHalting(torch.full((10,), 9)))
    _, ponder = case.layer(case.graph, case.feat)
    assert ponder.mean_steps == 5 and ponder.frontier_sizes.tolist() == [10] * 5
    assert ponder.edges == ponder.all_edges == 5 * case.graph.num_edges
    assert ponder.flops == ponder.all_flops


@pytest.mark.parametrize(("cost", "of"), [("steps+remainder", [1, 1]), ("remainder", [0, 1])])
def test_ponder_the_cost_is_a_mean_over_nodes_with_the_gradient_of_the_remainder(
    cost: str, of: list[int]
) -> None:
    case = build_case(cost=cost)
    _, ponder = case.layer(case.graph, case.feat)
    expected = (of[0] * ponder.steps + of[1] * ponder.remainder).mean()
    torch.testing.assert_close(ponder.cost, expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert repr(ponder).endswith(f"cost={expected.item():.4g})")
    bias = case.layer.halting.linear.bias
    (found,) = torch.autograd.grad(ponder.cost, bias, retain_graph=True)
    (by_remainder,) = torch.autograd.grad(ponder.remainder.mean(), bias)
    torch.testing.assert_close(found, by_remainder)
    assert found.item() < 0  # more probability at each step leaves less for the last


def test_stopped_nodes_are_those_that_the_rule_would_not_halt() -> None:
    case = build_case(lengths=[3], halting=ScheduledHalting(torch.tensor([1, 5, 9])))
    _, ponder, *_ = case.layer(case.graph, case.feat, get_attention=True)
    assert ponder.steps.tolist() == [1, 5, 5]
    assert ponder.stopped.tolist() == [False, False, True]
    case.layer.max_steps = 9
    assert not case.layer(case.graph, case.feat, get_attention=True)[1].stopped.any()
