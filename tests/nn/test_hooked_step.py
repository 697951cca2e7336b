from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphut.nn import MultiHeadAttention, UniversalTransformerStep, dense_recurrence
from tests.helpers import assert_same, covering, gradients, name_of, normal, relative_error
from tests.nn.cases import HALTED, MODES, build_case, engine, halve


class TwiceAttention(MultiHeadAttention):
    def forward(self, *args: Any, **options: Any) -> Any:
        return 2 * super().forward(*args, **options)


class TwiceStep(UniversalTransformerStep):
    def forward(self, *args: Any, **options: Any) -> Any:
        return 2 * super().forward(*args, **options)


@pytest.mark.parametrize("halted", HALTED)
@pytest.mark.parametrize("part", ["step", "attention"])
def test_recurrence_calls_the_forward_of_a_subclass(part: str, halted: str) -> None:
    own, hooked = build_case(halted=halted), build_case(halted=halted)
    layer, other = (
        case.layer.step if part == "step" else case.layer.step.attention for case in (own, hooked)
    )
    plain = own.run(engine)
    layer.__class__ = TwiceStep if part == "step" else TwiceAttention
    other.register_forward_hook(lambda module, args, out: 2 * out)
    found = own.run(engine)
    assert_same(found, hooked.run(engine))
    assert relative_error(found[0], plain[0]) > 1e-2


@pytest.mark.parametrize("halted", HALTED)
def test_recurrence_leaves_what_a_hook_on_keys_and_values_has_seen(halted: str) -> None:
    case, kept, copies = build_case(halted=halted), [], []
    layer = case.layer.step.attention.key_value

    def keep(module: nn.Module, args: Any, out: Tensor) -> Tensor:
        kept.append(out)
        copies.append(out.detach().clone())
        return out.tanh()

    layer.register_forward_hook(keep)
    out = engine(case.layer, case.graph, case.feat, **case.arguments)[0]
    out.sum().backward()
    assert kept and all(torch.equal(*pair) for pair in zip(kept, copies, strict=True))


def stretch(module: nn.Module, args: tuple[Any, Any]) -> tuple[Any, Any]:
    graph, feat = args
    if isinstance(feat, tuple):
        return graph, (1.5 * feat[0], 0.5 * feat[1])
    return graph, 1.5 * feat + feat.roll(1, 0)  # neighbours may have halted


HOOKED = covering(
    halted=HALTED,
    norm=MODES["norm"],
    form=MODES["form"],
    part=("step", "attention", "cross_attention"),
    pre=(False, True),
)


@pytest.mark.parametrize("modes", HOOKED, ids=name_of)
def test_recurrence_hooks_act_as_on_calls_of_the_step(
    modes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = dict(modes)
    part, pre = modes.pop("part"), modes.pop("pre")
    if part == "cross_attention":
        modes["form"] = "decoder"
    case = build_case(topology="rows", **modes)
    plain = case.run(engine)
    step = case.layer.step
    hooked = step if part == "step" else getattr(step, part)
    hook = (hooked.register_forward_pre_hook if pre else hooked.register_forward_hook)(
        stretch if pre else halve
    )
    found = case.run(engine)
    ponder = case.layer(case.graph, case.feat, **case.arguments)[1]
    assert ponder.projected == case.graph.num_src * int(ponder.steps.max())

    def call(step: Any, layout: Any, edges: Any, now: Any, shown: Any, *others: Any) -> Any:
        combined, _, cross = others
        return step(layout, shown, cross=cross), combined

    with monkeypatch.context() as patch:
        patch.setattr("graphut.nn.reference._step", call)
        assert_same(found, case.run(dense_recurrence))
    assert relative_error(found[0], plain[0]) > 1e-2
    hook.remove()
    assert_same(case.run(engine), plain)


def test_recurrence_hooks_see_a_call_a_step_with_its_frontier() -> None:
    case, calls = build_case(edge_dim=3), []
    feat = normal(case.graph.num_edges, 3, seed=9)
    case.arguments["edge_feat"] = feat

    def note(module: Any, args: Any, options: Any, out: Any) -> None:
        rows = options["frontier"]
        calls.append((type(module), 10 if rows is None else len(rows)))

    for module in (case.layer.step, case.layer.step.attention):
        module.register_forward_hook(note, with_kwargs=True)
    given = case.arguments
    out, ponder, weights = case.layer(case.graph, case.feat, get_attention=True, **given)
    expected, same, wanted = build_case(edge_dim=3).layer(
        case.graph, case.feat, get_attention=True, **given
    )
    assert_same([out, ponder.steps, *weights], [expected, same.steps, *wanted])
    assert all(map(torch.equal, ponder.attention.weights, weights))
    sizes = [int(size) for size in ponder.frontier_sizes if size]
    assert [rows for kind, rows in calls if kind is MultiHeadAttention] == sizes
    assert [rows for kind, rows in calls if kind is UniversalTransformerStep] == sizes


class NormalisedKeys(MultiHeadAttention):
    def project(self, feat: Tensor) -> Tensor:
        key, value = super().project(feat).chunk(2, -1)
        key = nn.functional.normalize(key.unflatten(-1, (self.num_heads, -1)), dim=-1)
        return torch.cat([3 * key.flatten(-2), value], -1)


@pytest.mark.parametrize("halted", HALTED)
def test_recurrence_knows_that_a_subclass_projects_otherwise(halted: str) -> None:
    own, hooked = build_case(halted=halted), build_case(halted=halted)
    for case in (own, hooked):
        case.layer.step.attention.__class__ = NormalisedKeys
    hooked.layer.step.register_forward_hook(lambda module, args, out: None)  # no fast path
    assert_same(own.run(engine), hooked.run(engine))


def test_recurrence_with_a_frozen_first_layer_drops_weights_in_the_others() -> None:
    case = build_case(share_weights=False, halted="running", halting=None)
    layer = case.layer.train()
    for step in layer.step:
        step.attention.attn_drop = 0.5

    def same() -> bool:
        outs = [engine(layer, case.graph, case.feat, **case.arguments)[0] for _ in range(2)]
        return torch.equal(*outs)

    layer.step[0].eval()
    assert not same()
    layer.eval()
    assert same()


@pytest.mark.parametrize("tracked", [0, 1, 2])
@pytest.mark.parametrize("halted", HALTED)
def test_recurrence_with_frozen_keys_and_detached_states_has_the_gradient_of_queries(
    halted: str, tracked: int
) -> None:
    found, calls = [], []

    def detach(module: Any, args: Any, out: Tensor) -> Tensor:
        calls.append(out)
        return out if len(calls) <= tracked else out.detach()

    for backend in ("auto", "dense"):
        case = build_case(halted=halted, norm="pre")
        step = case.layer.step
        step.attention.backend = backend
        step.attention.key_value.requires_grad_(False)
        step.attention_norm.register_forward_hook(detach)
        calls.clear()
        out = engine(case.layer, case.graph, case.feat, **case.arguments)[0]
        found.append(gradients([out], [step.attention.query.weight, case.feat]))
    assert_same(*found)
