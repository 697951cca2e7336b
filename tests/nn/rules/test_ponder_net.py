from __future__ import annotations

import pytest
import torch

from graphut.nn import PonderNet, Sampled
from graphut.nn.rules.base import BatchIndex, RuleState, StepRows
from tests.helpers import gradients


def test_ponder_net_a_probability_of_0_or_1_has_a_finite_gradient() -> None:
    p = torch.tensor([0.0, 1.0, 0.5, 1.0], requires_grad=True)
    state = RuleState(PonderNet(beta=1.0), torch.zeros(4, 1))
    cost = torch.zeros(4)
    for t in range(1, 4):
        rows = torch.ones(4, 1)
        halts = state.update(StepRows(rows, rows, p * (t < 3), t, t == 3))
        cost = torch.where(halts & (cost == 0), state.cost, cost)
    [slope] = gradients([state.out, cost], [p])
    assert bool(slope.isfinite().all()) and bool(cost.isfinite().all())


def drawn(seed: int, graph: torch.Tensor, place: torch.Tensor, p: float) -> torch.Tensor:
    """Return the step at which each row halts under `Sampled`."""
    rows, steps = torch.ones(len(graph), 1), torch.zeros(len(graph))
    state = RuleState(Sampled(seed), rows, BatchIndex(graph, place, 0, graph))
    for t in range(1, 100):
        halts = state.update(StepRows(rows, rows, torch.full((len(graph),), p), t, False))
        steps = torch.where((steps == 0) & halts, float(t), steps)
    assert bool(steps.all())
    return steps


@pytest.mark.parametrize("seed", [0, 1, 2**35])
def test_sampled_depths_are_distributed_geometrically(seed: int) -> None:
    node = torch.arange(20_000)
    steps = drawn(seed, node // 100, node % 100, 0.3)
    for t in range(1, 8):
        expected = 0.3 * 0.7 ** (t - 1)
        assert float((steps == t).double().mean()) == pytest.approx(expected, abs=0.012)
    first, second = steps[::2], steps[1::2]  # neighbours in a sequence
    correlation = torch.corrcoef(torch.stack([first, second]))[0, 1]
    assert abs(float(correlation)) < 0.04
    assert not torch.equal(steps, drawn(seed + 1, node // 100, node % 100, 0.3))


def test_sampled_draws_are_of_the_node_and_not_of_its_row() -> None:
    node = torch.arange(300)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    steps = drawn(5, node // 20, node % 20, 0.2)
    assert torch.equal(drawn(5, node[order] // 20, node[order] % 20, 0.2), steps[order])
