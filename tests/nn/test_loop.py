"""The loop with separate weights for each step, with each halting rule, and its rows."""

from itertools import cycle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphut.nn import (
    AdaptiveRecurrence,
    HaltingUnit,
    MultiHeadAttention,
    PonderNet,
    PositionwiseTransition,
    Threshold,
    UniversalTransformerStep,
)
from graphut.topology import Causal, Complete
from tests.helpers import assert_same, cross_edges, gradients, name_of, normal, refuses
from tests.nn.cases import (
    FEATS,
    HEADS,
    MODES,
    ROWS,
    RULES,
    build_case,
    build_step,
    engine,
    randomised,
    signal,
)
from tests.nn.reference import dense_recurrence
from tests.nn.rules.histories import plain_recurrence

LAYERS = 3


def plain(norm: str, decoder: bool, output_norm: bool) -> UniversalTransformerStep:
    return UniversalTransformerStep(
        MultiHeadAttention(FEATS, HEADS),
        PositionwiseTransition(FEATS, 12, activation=nn.GELU()),
        cross_attention=MultiHeadAttention(FEATS, HEADS) if decoder else None,
        norm=norm,
        output_norm=output_norm,
    )


def torchs(step: UniversalTransformerStep, decoder: bool) -> nn.Module:
    """Return torch's own layer with the weights of the step, so that they get gradients."""
    kind = nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer
    other: Any = kind(
        FEATS, HEADS, 12, dropout=0.0, activation="gelu", norm_first=step.norm == "pre"
    ).double()
    attentions = [(other.self_attn, step.attention)]
    norms = [step.attention_norm, step.transition_norm]
    if decoder:
        attentions.append((other.multihead_attn, step.cross_attention))
        norms.insert(1, step.cross_norm)
    for theirs, ours in attentions:
        share(theirs, "in_proj_weight", torch.cat([ours.query.weight, ours.key_value.weight]))
        share(theirs, "in_proj_bias", torch.cat([ours.query.bias, ours.key_value.bias]))
        theirs.out_proj = ours.output
    other.linear1, other.linear2 = (m for m in step.transition.layers if isinstance(m, nn.Linear))
    for number, norm in enumerate(norms, 1):
        setattr(other, f"norm{number}", norm)
    return other


def share(module: nn.Module, name: str, value: Tensor) -> None:
    delattr(module, name)
    setattr(module, name, value)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("decoder", [False, True], ids=["encoder", "decoder"])
def test_loop_it_is_a_stack_of_torchs_layers(norm: str, decoder: bool) -> None:
    steps = [
        randomised(plain(norm, decoder, output_norm=t == LAYERS - 1), seed=100 * t)
        for t in range(LAYERS)
    ]
    others = [torchs(step, decoder) for step in steps]
    layer = AdaptiveRecurrence(steps, max_steps=LAYERS)
    feat, memory, positions = normal(6, FEATS), normal(4, FEATS, seed=1), torch.arange(1, 7)
    place = torch.stack([signal(float(p), FEATS) for p in positions])
    topology: Any = Causal() if decoder else Complete()
    cross = (cross_edges(Complete(), [6], [4]), memory) if decoder else None
    found, ponder = layer(topology.graph([6]), feat, positions=positions, cross=cross)

    state, mask = feat, ~topology.mask(6)
    for t, other in enumerate(others, 1):
        now = state + place + signal(t, FEATS)
        state = other(now, memory, tgt_mask=mask) if decoder else other(now)
    expected = state if norm == "post" else steps[-1].output_norm(state)
    inputs = [feat, *([memory] if decoder else []), *layer.parameters()]
    assert_same([found], [expected])
    assert_same(gradients([found], inputs), gradients([expected], inputs))
    assert ponder.steps.tolist() == [LAYERS] * 6 and not ponder.remainder.any()


STEP, PRE, DECODER = build_step(), build_step(norm="pre"), build_step(form="decoder")
WIDER = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 13))


def test_loop_refuses_steps_that_do_not_go_together() -> None:
    def check(words: str, *steps: Any, **options: Any) -> None:
        refuses(words, AdaptiveRecurrence, [*steps], **options)

    check("got 2 steps for max_steps=3; pass 3", STEP, build_step(), max_steps=3)
    check("got 0 steps for max_steps=8")
    check("halting=None", STEP, build_step(), halting=HaltingUnit(FEATS), max_steps=2)
    check("a step is in the sequence twice", STEP, STEP, max_steps=2)
    check("use output_norm=False", PRE, build_step(norm="pre"), max_steps=2)
    for other in (PRE, DECODER, WIDER):
        check("step 3 has other settings than the first", STEP, build_step(), other, max_steps=3)
    layer = build_case(share_weights=False, max_steps=LAYERS, rule="fixed").layer
    refuses("max_steps cannot become 4: .* 3 steps", setattr, layer, "max_steps", 4)
    assert layer.max_steps == LAYERS


# Halting rules, and the rows of each step.

HALTED = MODES["halted"]


@pytest.mark.parametrize("row", [row for row in ROWS if "rule" in row], ids=name_of)
def test_loop_every_rule_decides_as_its_plain_version(row: dict[str, Any]) -> None:
    case = build_case(**row)
    assert_same(case.run(engine), case.run(plain_recurrence))


@pytest.mark.parametrize(("halted", "rule"), [*zip(cycle(HALTED), ["act", *RULES], strict=False)])
def test_loop_the_rows_of_each_step(halted: str, rule: str) -> None:
    case = build_case(halted=halted, rule=RULES.get(rule), topology="rows")
    out, ponder, steps = case.layer(case.graph, case.feat, **case.arguments, get_steps=True)
    again, _ = case.layer(case.graph, case.feat, **case.arguments)
    assert_same([out], [again])
    total, weight = torch.zeros_like(out), torch.zeros(10, dtype=torch.float64)
    for step, rows in enumerate(steps, 1):
        assert rows.nodes.tolist() == (ponder.steps >= step).nonzero()[:, 0].tolist()
        assert rows.states.shape == (len(rows.nodes), FEATS)
        assert rows.probability.shape == rows.weights.shape == rows.nodes.shape
        total = total.index_add(0, rows.nodes, rows.weights[:, None] * rows.states)
        weight = weight.index_add(0, rows.nodes, rows.weights)
        unit = case.layer.halting.linear.weight
        [slope] = torch.autograd.grad(rows.probability.sum(), unit, retain_graph=True)
        assert slope.any()  # the probability can learn by its own loss
    assert len(steps) == int(ponder.steps.max())
    assert_same([total, weight], [out, torch.ones(10).double()])
    assert_same(gradients([total], case.inputs), gradients([again], case.inputs))


@pytest.mark.parametrize("halted", HALTED)
@pytest.mark.parametrize("share_weights", [True, False])
def test_loop_the_rows_of_a_pre_norm_step_are_normalised(halted: str, share_weights: bool) -> None:
    case = build_case(halted=halted, norm="pre", rule="fixed", share_weights=share_weights)
    out, _, weights, steps = case.layer(
        case.graph, case.feat, **case.arguments, get_attention=True, get_steps=True
    )
    assert len(weights) == len(steps) == 5
    assert_same([steps[-1].states], [out])
    mean = torch.stack([rows.states for rows in steps]).detach().mean(-1)
    assert (mean - mean.mean(1, keepdim=True)).abs().max() < 0.3  # a norm's bias, and no drift
    assert (steps[0].probability is None) == (case.layer.halting is None)
    assert [bool(rows.weights.any()) for rows in steps] == [False] * 4 + [True]


def test_loop_training_and_evaluation_have_rules_of_their_own() -> None:
    case = build_case(rule=PonderNet(threshold=0.8))
    case.layer.evaluation_rule = Threshold(0.6)
    trained = case.run(engine)
    case.layer.eval()
    evaluated = case.run(engine)
    assert_same(evaluated, case.run(dense_recurrence))
    assert not torch.equal(trained[1], evaluated[1]) and evaluated[3] == 0
    case.layer.evaluation_rule = None
    median = PonderNet(threshold=0.5, weighting="last")
    assert case.layer.active_rule == median
    assert_same(case.run(engine), build_case(rule=median).run(engine))


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda p: p[:, None], r"returned \(10, 1\) of torch.float64 for 10 rows.*take \[:, 0\]"),
        (lambda p: p[1:], r"returned \(9,\) of torch.float64 for 10 rows"),
        (lambda p: p > 0.5, "of torch.bool for 10 rows; it must return .* floating-point"),
        (lambda p: p + 1.0, r"probability of node \d is outside of \[0, 1\] at step 1; .* sigmoid"),
        (lambda p: -p, r"probability of node 0 is outside of \[0, 1\] at step 1"),
    ],
)
def test_loop_halting_modules_that_return_no_probabilities(returned: Any, words: str) -> None:
    class Wrong(HaltingUnit):
        def forward(self, *arguments: Any) -> Tensor:
            return returned(super().forward(*arguments))

    case = build_case(halting=Wrong(FEATS).double())
    refuses(words, case.layer, case.graph, case.feat)
