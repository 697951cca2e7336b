from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import remove_parametrizations

from graphut._dgl import dgl
from graphut.nn import (
    AdaptiveRecurrence,
    CopyGate,
    MultiHeadAttention,
    PositionwiseTransition,
    SeparableConvTransition,
    UniversalTransformerStep,
)
from graphut.topology import Complete
from tests.helpers import assert_same, covering, gradients, name_of, normal
from tests.nn.adapters import LowRank, halved, halving, normed
from tests.nn.cases import FEATS, HEADS, MODES, Case, build_case, build_step
from tests.nn.naive import naive_recurrence, signal

FORMS = covering(**{name: MODES[name] for name in ("norm", "form", "transition", "topology")})


class Halve(nn.Module):
    """Replacement for dropout that halves its input."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows / 2


def one_step(modes: dict[str, Any]) -> tuple[UniversalTransformerStep, Case]:
    case = build_case(**modes)
    return case.layer.step, case


@pytest.mark.parametrize("modes", FORMS, ids=name_of)
def test_a_step_is_its_formula(modes: dict[str, Any]) -> None:
    step, case = one_step(modes)
    step.dropout = Halve()
    once = AdaptiveRecurrence(step, max_steps=1)
    expected, *_ = naive_recurrence(once, case.graph, case.feat, cross=case.cross)
    found = step.readout(step(case.graph, case.feat + signal(1, 8), cross=case.cross))
    inputs = [case.feat, *step.parameters()]
    assert_same([found], [expected])
    assert_same(gradients([found], inputs), gradients([expected], inputs))


@pytest.mark.parametrize("modes", FORMS, ids=name_of)
def test_step_a_frontier_gives_those_rows(modes: dict[str, Any]) -> None:
    step, case = one_step(modes)
    sentence = torch.arange(4)  # a convolution reads the others of its sentence, and no more
    some = step(case.graph, case.feat, frontier=sentence, cross=case.cross)
    assert_same([some], [step(case.graph, case.feat, cross=case.cross)[sentence]])


def test_step_outside_the_frontier_a_convolution_reads_zero() -> None:
    step, case = one_step({"transition": "sepconv"})
    node = torch.tensor([1])
    found = step(case.graph, case.feat, frontier=node)
    step.transition.depthwise.data[[0, 2]] = 0
    assert_same([found], [step(case.graph, case.feat)[node]])


def test_step_value_shift_is_what_a_signal_adds_to_values() -> None:
    step, rows = build_step(norm="post"), normal(5, 8)
    signal = normal(8, seed=1)
    keys, values = (step.project(rows + signal) - step.project(rows)).chunk(2, dim=1)
    assert_same([values], [step.value_shift(signal).expand(5, 8)])
    assert_same([keys], [keys[:1].expand(5, 8)])
    assert build_step(norm="pre").value_shift(signal) is None


def maps_of(layer: AdaptiveRecurrence) -> list[tuple[nn.Module, str]]:
    """Return the owner and the attribute name of each linear map of a recurrence."""
    found = [
        (m, name)
        for m in layer.modules()
        for name, part in m.named_children()
        if type(part) is nn.Linear
    ]
    assert len(found) == 9  # 3 of each attention, 2 of the transition, and the halting unit's
    return found


def assert_every_map(change: Any, undo: Any, modes: dict[str, Any]) -> None:
    """Compare a recurrence with changed maps and one with the change in its weights."""
    case = build_case(form="decoder", **modes)
    maps = maps_of(case.layer)
    plain = case.layer(case.graph, case.feat, **case.arguments)[0]
    for owner, name in maps:
        setattr(owner, name, change(getattr(owner, name)))
    found = case.layer(case.graph, case.feat, **case.arguments)[0]
    grads = gradients([found], case.inputs)
    for owner, name in maps:
        setattr(owner, name, undo(getattr(owner, name)))
    expected = case.layer(case.graph, case.feat, **case.arguments)[0]
    assert_same([found], [expected])
    assert_same(grads[:2], gradients([expected], case.inputs[:2]))
    assert not torch.allclose(found, plain)


ALIKE = covering(halted=MODES["halted"], norm=MODES["norm"], transition=MODES["transition"])


@pytest.mark.parametrize("modes", ALIKE, ids=name_of)
def test_step_with_lora_in_every_map_is_that_with_merged_weights(modes: dict[str, Any]) -> None:
    assert_every_map(LowRank, LowRank.merged, modes)


@pytest.mark.parametrize("halted", MODES["halted"])
@pytest.mark.parametrize("norm", MODES["norm"])
def test_step_with_lora_has_gradients_for_every_map(halted: str, norm: str) -> None:
    case = build_case(form="decoder", halted=halted, norm=norm)
    for owner, name in maps_of(case.layer):
        setattr(owner, name, LowRank(getattr(owner, name)))
    found, ponder = case.layer(case.graph, case.feat, **case.arguments)
    changes = [p for name, p in case.layer.named_parameters() if name.endswith((".up", ".down"))]
    grads = torch.autograd.grad(found.sum() + ponder.cost, changes)
    assert len(grads) == 18 and all(bool(grad.any()) for grad in grads)


@pytest.mark.parametrize("modes", ALIKE, ids=name_of)
def test_step_with_hooks_on_every_map_is_that_with_their_effect(modes: dict[str, Any]) -> None:
    assert_every_map(halving, halved, modes)


@pytest.mark.parametrize("modes", ALIKE, ids=name_of)
def test_step_with_weight_norm_in_every_map_is_that_with_its_weight(modes: dict[str, Any]) -> None:
    assert_every_map(normed, lambda layer: remove_parametrizations(layer, "weight"), modes)


def test_step_operations_of_one_node() -> None:
    encoder = 4 * 8 * 8 + 4 * 8 * 12
    assert build_step().node_flops == encoder
    assert build_step(form="decoder").node_flops == encoder + 4 * 8 * 8


def test_step_a_decoder_needs_what_it_attends_to_and_an_encoder_takes_none() -> None:
    graph, feat = Complete().layout([5]), normal(5, 8)
    cross = Complete().layout([5], [2]), normal(2, 6)
    with pytest.raises(ValueError, match=r"needs cross=.*got cross=None"):
        build_step(form="decoder")(graph, feat)
    with pytest.raises(ValueError, match=r"accepts no cross; got cross=given"):
        build_step()(graph, feat, cross=cross)


def test_step_norms_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match=r"norm must be one of .*'post', 'pre'.*, got 'none'"):
        UniversalTransformerStep(
            MultiHeadAttention(8, 2), PositionwiseTransition(8, 12), norm="none"
        )
    with pytest.raises(ValueError, match="norm must be 'post' with a copy_gate, got 'pre'"):
        UniversalTransformerStep(
            MultiHeadAttention(8, 2), PositionwiseTransition(8, 12), norm="pre",
            copy_gate=CopyGate(8),
        )  # fmt: skip
    with pytest.raises(ValueError, match="copy_gate has 6"):
        UniversalTransformerStep(
            MultiHeadAttention(8, 2), PositionwiseTransition(8, 12), copy_gate=CopyGate(6)
        )


def test_step_keeps_the_state_where_the_copy_gate_is_closed() -> None:
    step, feat = build_step(copy_gate=True), normal(5, FEATS)
    assert step.copy_gate is not None
    step.copy_gate.layers[3].bias.data.fill_(-100.0)
    assert_same([step(Complete().layout([5]), feat)], [feat])
    step.reset_parameters()
    assert bool((step.copy_gate.layers[3].bias == -3).all())


@pytest.mark.parametrize(
    ("attention", "transition", "cross", "words"),
    [
        (MultiHeadAttention(8, 2), PositionwiseTransition(6, 12), None, "8, but transition has 6"),
        (MultiHeadAttention(8, 2), SeparableConvTransition(6, 12), None, "8, but transition has 6"),
        (MultiHeadAttention((6, 8), 2), PositionwiseTransition(8, 12), None, "sources .* has 6"),
        (
            MultiHeadAttention(8, 2, out_feats=4),
            PositionwiseTransition(8, 12),
            None,
            "output .* has 4",
        ),
        (
            MultiHeadAttention(8, 2),
            PositionwiseTransition(8, 12),
            MultiHeadAttention((8, 6), 2),
            "destinations of cross_attention has 6",
        ),
    ],
)
def test_step_parts_of_other_widths(
    attention: MultiHeadAttention, transition: Any, cross: Any, words: str
) -> None:
    with pytest.raises(
        ValueError, match=f"all parts of a step need the same number of features: .*{words}"
    ):
        UniversalTransformerStep(attention, transition, cross_attention=cross)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"attention": dgl.nn.GINConv()}, r"ConvAsAttention\(layer, feats\); got GINConv"),
        ({"transition": nn.Linear(8, 8)}, "PositionwiseTransition .*; got Linear"),
        ({"copy_gate": True}, "CopyGate or None; got bool"),
        ({"cross_attention": True}, "MultiHeadAttention or None; got bool"),
    ],
)
def test_step_parts_of_other_types(part: dict[str, Any], words: str) -> None:
    parts = {"attention": MultiHeadAttention(8, 2), "transition": PositionwiseTransition(8, 12)}
    with pytest.raises(TypeError, match=f"{next(iter(part))} must be .*{words}"):
        UniversalTransformerStep(**{**parts, **part})


@pytest.mark.parametrize("modes", FORMS, ids=name_of)
def test_step_weights_and_bias_are_those_of_its_attention(modes: dict[str, Any]) -> None:
    step, case = one_step(modes)
    bias = normal(case.graph.num_edges, HEADS, seed=3)
    out, weights = step(case.graph, case.feat, cross=case.cross, edge_bias=bias, get_attention=True)
    rows = step.attention_norm(case.feat) if step.norm == "pre" else case.feat
    _, expected = step.attention(case.graph, rows, edge_bias=bias, get_attention=True)
    assert_same([weights], [expected])
    plain = step(case.graph, case.feat, cross=case.cross)
    assert not torch.allclose(out, plain)
    zero = torch.zeros_like(bias)
    assert_same([step(case.graph, case.feat, cross=case.cross, edge_bias=zero)], [plain])
