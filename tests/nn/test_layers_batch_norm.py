"""Batch normalisation with statistics of each step, against masks and against torch's module."""

from typing import Any

import pytest
import torch
from torch import nn

from graphut.nn import (
    ACT,
    AdaptiveRecurrence,
    ConvAsAttention,
    EventDriven,
    FixedDepth,
    HaltingRule,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    ScheduledHalting,
    StepBatchNorm,
    Threshold,
    UniversalTransformerStep,
    from_edge_index,
)
from tests.helpers import assert_same, normal, refuses
from tests.nn.cases import Case, same_as_dense

NODES, FEATS, STEPS = 30, 6, 4
EDGES = torch.randint(NODES, (2, 120), generator=torch.Generator().manual_seed(0))
LAYOUT = from_edge_index(torch.cat([EDGES, torch.arange(NODES).expand(2, -1)], 1), NODES)


def step_of(kind: str = "conv", steps: int = STEPS) -> UniversalTransformerStep:
    torch.manual_seed(0)
    if kind == "attention":
        attention, transition = MultiHeadAttention(FEATS, 2), PositionwiseTransition(FEATS, 9)
        return UniversalTransformerStep(attention, transition, batch_norm=steps).double()
    pyg: Any = pytest.importorskip("torch_geometric.nn")
    conv: Any = ConvAsAttention(pyg.SAGEConv(FEATS, FEATS), FEATS)
    options: Any = {"residual": False, "activation": nn.Tanh(), "batch_norm": steps}
    return UniversalTransformerStep(conv, None, **options).double()


def build(step: UniversalTransformerStep, rule: HaltingRule, **options: Any) -> AdaptiveRecurrence:
    halting = HaltingUnit(FEATS, bias_init=-0.5).double() if rule.uses_probability else None
    signals: Any = {"position_signal": None, "step_signal": None}
    return AdaptiveRecurrence(step, halting, rule=rule, max_steps=STEPS, **signals, **options)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("halted", ["frozen", "stale", "running"])
@pytest.mark.parametrize("rule", [ACT(), ACT(min_steps=0), Threshold(0.5), FixedDepth()])
@pytest.mark.parametrize("kind", ["conv", "attention"])
def test_batch_norm_in_a_frontier_equals_masks(
    kind: str, rule: HaltingRule, halted: str, training: bool
) -> None:
    layer, x = build(step_of(kind), rule, halted=halted), normal(NODES, FEATS)
    for _ in range(3):  # running statistics that differ between steps
        layer(LAYOUT, x)
    layer.train(training)
    steps = same_as_dense(Case(layer, LAYOUT, x))
    assert isinstance(rule, FixedDepth) or len(steps.unique()) > 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_step_batch_norm_is_torchs_in_each_step(dtype: torch.dtype) -> None:
    norm = StepBatchNorm(FEATS, STEPS).to(dtype)
    each = [nn.BatchNorm1d(FEATS).to(dtype) for _ in range(STEPS)]
    for t in (1, 2, 3, 4, 5, 2, 7):
        rows = normal(t + 1, FEATS, seed=t, dtype=dtype).detach()
        assert_same([norm(rows, t)], [each[min(t, STEPS) - 1](rows)], 1e-6)
    alone = normal(1, FEATS, dtype=dtype).detach()
    for t in range(1, STEPS + 1):
        before = norm.running_mean.clone()
        found = norm(alone, t)  # the running statistics, which stay
        assert torch.equal(norm.running_mean, before)
        assert_same([found], [each[t - 1].eval()(alone)], 1e-6)
    again = StepBatchNorm(FEATS, STEPS).to(dtype)
    again.load_state_dict(norm.state_dict())
    assert_same([again.eval()(alone, 3)], [norm.eval()(alone, 3)])
    norm.reset_parameters()
    assert bool((norm.running_var == 1).all())


def test_a_row_does_not_depend_on_others_in_evaluation() -> None:
    layer, x = build(step_of(steps=2), Threshold(0.5), halted="frozen"), normal(NODES, FEATS)
    for _ in range(3):
        layer(LAYOUT, x)
    layer.eval()
    both = from_edge_index(torch.cat([EDGES, EDGES + NODES], 1), 2 * NODES)
    twice = layer(both, torch.cat([x, normal(NODES, FEATS, seed=5)]))[0]
    assert_same([twice[:NODES]], [layer(from_edge_index(EDGES, NODES), x)[0]])


def test_halted_nodes_run_in_training_and_are_frozen_in_evaluation() -> None:
    step, x, depth = step_of(), normal(NODES, FEATS), torch.arange(NODES) % 3 + 1
    options: Any = {"rule": Threshold(0.5), "step_signal": None, "max_steps": STEPS}

    def layer(**modes: Any) -> AdaptiveRecurrence:
        return AdaptiveRecurrence(step, ScheduledHalting(depth), **modes, **options)

    both = layer(halted="running", evaluation_halted="frozen")
    assert_same([both(LAYOUT, x)[0]], [layer(halted="running")(LAYOUT, x)[0]])
    out, ponder = both.eval()(LAYOUT, x)
    assert_same([out], [layer(halted="frozen").eval()(LAYOUT, x)[0]])
    assert ponder.flops < ponder.all_flops
    assert "halted='running', evaluation_halted='frozen'" in repr(both)
    refuses("halted must be one of .*; got 'never'", build, step, ACT(), evaluation_halted="never")


def test_batch_norm_is_refused_where_it_does_not_fit() -> None:
    attention = MultiHeadAttention(FEATS, 2)
    make: Any = UniversalTransformerStep
    refuses("batch_norm needs norm='post'", make, attention, None, norm="pre", batch_norm=3)
    refuses(
        "residual=False needs norm='post' or", make, attention, None, norm="pre", residual=False
    )
    refuses("cannot be used with batch normalisation", build, step_of(), EventDriven())
    refuses("min_steps must be 0 or 1", ACT, min_steps=2)


@pytest.mark.parametrize("halted", ["copied", "frozen", "stale", "running"])
@pytest.mark.parametrize("bias", [-1.0, 8.0])
def test_min_steps_0_halts_nodes_before_the_first_step(halted: str, bias: float) -> None:
    torch.manual_seed(0)
    step = UniversalTransformerStep(MultiHeadAttention(FEATS, 2), PositionwiseTransition(FEATS, 9))
    unit, x = HaltingUnit(FEATS, bias_init=bias, gain=6.0), normal(NODES, FEATS)
    layer = AdaptiveRecurrence(step, unit, rule=ACT(min_steps=0), max_steps=3, halted=halted)
    steps = same_as_dense(Case(layer.double(), LAYOUT, x, torch.arange(NODES)))
    out, _ = layer(LAYOUT, x, positions=torch.arange(NODES))
    assert bool((steps == 0).any())
    assert_same([out[steps == 0]], [x[steps == 0]])
