from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrize import remove_parametrizations

from graphut._dgl import dgl
from graphut.nn import (
    AdaptiveRecurrence,
    MultiHeadAttention,
    PositionwiseTransition,
    UniversalTransformerStep,
)
from graphut.topology import Complete
from tests.helpers import assert_same, covering, cross_edges, gradients, name_of, normal, refuses
from tests.nn.adapters import LowRank, halved, halving, normed
from tests.nn.cases import (
    MODES,
    Case,
    build_case,
    build_step,
    modes_of,
    run_step,
    same_as_dense,
    signal,
)
from tests.nn.reference import dense_recurrence

FORMS = covering(**{name: MODES[name] for name in ("norm", "form", "transition", "topology")})


def one_step(modes: dict[str, Any]) -> tuple[UniversalTransformerStep, Case]:
    case = build_case(**modes)
    return case.layer.step, case


@pytest.mark.parametrize("modes", FORMS, ids=name_of)
def test_step_alone_is_a_recurrence_of_one_step(modes: dict[str, Any]) -> None:
    step, case = one_step(modes)
    once = AdaptiveRecurrence(step, max_steps=1)
    expected, *_ = dense_recurrence(once, case.graph, case.feat, cross=case.cross)
    found = step.readout(run_step(step, case.graph, case.feat + signal(1, 8), case.cross))
    inputs = [case.feat, *step.parameters()]
    assert_same([found], [expected])
    assert_same(gradients([found], inputs), gradients([expected], inputs))


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


CHANGES: dict[str, Any] = {
    "lora": (LowRank, LowRank.merged),
    "hooks": (halving, halved),
    "weight-norm": (normed, lambda layer: remove_parametrizations(layer, "weight")),
}


@pytest.mark.parametrize(
    "row", covering(change=list(CHANGES), **modes_of("halted", "norm", "transition")), ids=name_of
)
def test_step_with_changed_maps_is_that_with_changed_weights(row: dict[str, Any]) -> None:
    change, undo = CHANGES[row.pop("change")]
    case = build_case(form="decoder", **row)
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


def test_step_operations_of_one_node() -> None:
    encoder = 4 * 8 * 8 + 4 * 8 * 12
    assert build_step().node_flops == encoder
    assert build_step(form="decoder").node_flops == encoder + 4 * 8 * 8


WITHOUT_NORM = covering(
    residual=(True, False),
    **{name: MODES[name] for name in ("halted", "form", "transition", "topology")},
)


@pytest.mark.parametrize("modes", WITHOUT_NORM, ids=name_of)
def test_step_without_norm_or_transition_is_its_formula(modes: dict[str, Any]) -> None:
    step, case = one_step({**modes, "norm": None})
    same_as_dense(case)
    residual = modes["residual"]
    attended = [case.feat * residual + step.attention(case.graph, case.feat)]
    if step.cross_attention is not None and case.cross is not None:
        between, source = case.cross
        read = step.cross_attention(between, (source, attended[0]))
        attended.append(attended[0] * residual + read)
    moved = attended[-1] * residual + step.transition(case.graph, attended[-1])
    assert_same([run_step(step, case.graph, case.feat, case.cross)], [moved])
    step.transition = None
    assert_same([run_step(step, case.graph, case.feat, case.cross)], attended[-1:])
    same_as_dense(case)


# Refused parts and arguments.

ATTENTION, TRANSITION = MultiHeadAttention(8, 2), PositionwiseTransition(8, 12)
FIVE, FEAT = Complete().layout([5]), normal(5, 8)
CROSS = cross_edges(Complete(), [5], [2]), normal(2, 6)
WIDTHS = "all parts of a step need the same number of features: .*"


def make(attention: Any = ATTENTION, transition: Any = TRANSITION, **parts: Any) -> None:
    UniversalTransformerStep(attention, transition, **parts)


def test_step_refuses_what_does_not_fit() -> None:
    decoder = AdaptiveRecurrence(build_step(form="decoder"))
    refuses(r"needs cross=.*got cross=None", decoder, FIVE, FEAT)
    words = "accepts no cross; got cross=given"
    refuses(words, AdaptiveRecurrence(build_step()), FIVE, FEAT, cross=CROSS)
    refuses("is called by a recurrence, got .*Layout: use AdaptiveRec", build_step(), FIVE, FEAT)
    refuses(r"norm must be one of .*'post', 'pre'.*, got 'none'", make, norm="none")
    refuses("residual=False needs norm='post' or norm=None", make, residual=False, norm="pre")
    refuses(f"{WIDTHS}8, but transition has 6", make, ATTENTION, PositionwiseTransition(6, 12))
    refuses(f"{WIDTHS}sources .* has 6", make, MultiHeadAttention((6, 8), 2))
    refuses(
        f"{WIDTHS}destinations of cross_attention has 6",
        make,
        cross_attention=MultiHeadAttention((8, 6), 2),
    )
    refuses(r"attention must .*ConvAsAttention\(layer, feats\); got G", make, dgl.nn.GINConv())
    refuses("transition must .*wiseTransition, .*; got Linear", make, ATTENTION, nn.Linear(8, 8))
    refuses("attention must .*; got PositionwiseTransition", make, TRANSITION, ATTENTION)
    refuses("must be .*MultiHeadAttention or None; got bool", make, cross_attention=True)
