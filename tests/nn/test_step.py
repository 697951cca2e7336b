from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import remove_parametrizations

from graphut._dgl import dgl
from graphut.attention import EdgeLayout
from graphut.nn import (
    AdaptiveRecurrence,
    MultiHeadAttention,
    PositionwiseTransition,
    SeparableConvTransition,
    UniversalTransformerStep,
)
from graphut.topology import Complete
from tests.helpers import assert_same, covering, gradients, name_of, normal, refuses
from tests.nn.adapters import LowRank, halved, halving, normed
from tests.nn.cases import (
    FEATS,
    HEADS,
    MODES,
    Case,
    build_case,
    build_step,
    modes_of,
    same_as_dense,
)
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
    assert_same([step(case.graph, case.feat, cross=case.cross)], [moved])
    step.transition = None
    assert_same([step(case.graph, case.feat, cross=case.cross)], attended[-1:])
    same_as_dense(case)


class ConvolutionalGRU(nn.Module):
    """The gated recurrent unit of the Neural GPU (arXiv 1511.08228, section 2) as a transition."""

    in_feats, node_flops = FEATS, 0

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Conv1d(FEATS, 2 * FEATS, 3, padding=1)
        self.new = nn.Conv1d(FEATS, FEATS, 3, padding=1)

    def forward(self, layout: EdgeLayout, feat: Tensor, frontier: Tensor | None = None) -> Tensor:
        rows = torch.cat([self.sentence(part) for part in feat.split(layout.dst_lengths.tolist())])
        return rows if frontier is None else rows[frontier]

    def sentence(self, rows: Tensor) -> Tensor:
        state = rows.T[None]
        update, reset = self.gates(state).sigmoid().chunk(2, 1)
        new = self.new(reset * state).tanh()
        return (update * state + (1 - update) * new)[0].T


class Identity(nn.Module):
    """Attention, with its residual, as the identity."""

    in_feats, out_feats = (FEATS, FEATS), FEATS
    node_flops = key_value_flops = edge_flops = 0

    def project(self, feat: Tensor) -> Tensor:
        return feat.clone()

    def forward(self, layout: Any, rows: Tensor, **options: Any) -> Tensor:
        return rows


def test_neural_gpu_is_a_universal_transformer() -> None:
    # Section 4 of arXiv 1807.03819: self-attention with its residual is the identity, the
    # transition is a convolution, and there are as many steps as tokens.
    torch.manual_seed(0)
    unit, lengths = ConvolutionalGRU().double(), torch.tensor([5, 5])
    step = UniversalTransformerStep(Identity(), unit, norm=None, residual=False)
    layer = AdaptiveRecurrence(step, max_steps=5, position_signal=None, step_signal=None)
    feat = normal(10, FEATS)
    found, _ = layer(Complete().layout(lengths), feat)
    expected = feat.view(2, 5, FEATS).transpose(1, 2)
    for _ in range(5):
        update, reset = unit.gates(expected).sigmoid().chunk(2, 1)
        expected = update * expected + (1 - update) * unit.new(reset * expected).tanh()
    expected = expected.transpose(1, 2).flatten(0, 1)
    inputs = [feat, *unit.parameters()]
    assert_same([found], [expected])
    assert_same(gradients([found], inputs), gradients([expected], inputs))


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


# Refused parts and arguments.

ATTENTION, TRANSITION = MultiHeadAttention(8, 2), PositionwiseTransition(8, 12)
FIVE, FEAT = Complete().layout([5]), normal(5, 8)
CROSS = Complete().layout([5], [2]), normal(2, 6)
WIDTHS = "all parts of a step need the same number of features: .*"


def make(attention: Any = ATTENTION, transition: Any = TRANSITION, **parts: Any) -> None:
    UniversalTransformerStep(attention, transition, **parts)


def test_step_refuses_what_does_not_fit() -> None:
    refuses(r"needs cross=.*got cross=None", build_step(form="decoder"), FIVE, FEAT)
    refuses(r"accepts no cross; got cross=given", build_step(), FIVE, FEAT, cross=CROSS)
    refuses(r"norm must be one of .*'post', 'pre'.*, got 'none'", make, norm="none")
    refuses("residual=False needs norm='post' or norm=None", make, residual=False, norm="pre")
    refuses(f"{WIDTHS}8, but transition has 6", make, ATTENTION, PositionwiseTransition(6, 12))
    refuses(f"{WIDTHS}8, but transition has 6", make, ATTENTION, SeparableConvTransition(6, 9))
    refuses(f"{WIDTHS}sources .* has 6", make, MultiHeadAttention((6, 8), 2))
    refuses(f"{WIDTHS}output .* has 4", make, MultiHeadAttention(8, 2, out_feats=4))
    refuses(
        f"{WIDTHS}destinations of cross_attention has 6",
        make,
        cross_attention=MultiHeadAttention((8, 6), 2),
    )
    refuses(r"attention must .*ConvAsAttention\(layer, feats\); got G", make, dgl.nn.GINConv())
    refuses("transition must .*wiseTransition, .*; got Linear", make, ATTENTION, nn.Linear(8, 8))
    refuses("attention must .*; got PositionwiseTransition", make, TRANSITION, ATTENTION)
    refuses("transition must .*; got MultiHeadAttention", make, ATTENTION, ATTENTION)
    refuses("must be .*MultiHeadAttention or None; got bool", make, cross_attention=True)
