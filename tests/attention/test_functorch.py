from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jacfwd, jacrev, jvp, vmap

from graphut._dgl import DGLGraph, dgl
from graphut.attention import BACKENDS, as_layout, edge_attention
from graphut.nn import ACT, AdaptiveRecurrence, Global, HaltingUnit, LayerAsConv, MultiHeadAttention
from graphut.topology import Causal, Complete
from tests.attention.naive import inputs
from tests.helpers import assert_same, gradients, normal, refuses
from tests.nn.cases import FEATS, HEADS, MODES, build_case, build_step, randomised

# Torch's own forward-mode derivatives come with a warning.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
RIGHT = ("auto", "dense", "torch")
FEAT, TANGENT = normal(4, FEATS).detach(), normal(4, FEATS, seed=1).detach()


def fresh() -> DGLGraph:
    """A graph whose layout has never been made: of rows, with an interval in no order."""
    return dgl.graph(([2, 0, 1, 2, 3, 3, 1], [1, 0, 1, 2, 3, 0, 2]))


def layer_of(name: str, backend: str) -> nn.Module:
    """Attention, a step, or a recurrence by its way with halted nodes or without halting."""
    if name == "attention":
        return randomised(MultiHeadAttention(FEATS, HEADS, backend=backend))
    if name == "step":
        layer: Any = build_step()
    elif name == "fixed":
        layer = AdaptiveRecurrence(build_step(), max_steps=3)
    else:
        layer = build_case(halted=name).layer
    for part in layer.modules():
        if isinstance(part, MultiHeadAttention):
            part.backend = backend
    return layer


def run(layer: nn.Module, graph: Any, feat: Tensor) -> Tensor:
    out = layer(graph, feat)
    return out[0] if isinstance(out, tuple) else out


def slope(layer: nn.Module) -> Tensor:
    """The derivative along the tangent, by a difference."""
    eps = 1e-6
    ahead, behind = (run(layer, fresh(), FEAT + sign * eps * TANGENT) for sign in (1, -1))
    return (ahead - behind) / (2 * eps)


def by_grad(layer: nn.Module, graph: Any) -> tuple[Tensor, Tensor]:
    """Gradients of all weights and of the features."""
    weights = dict(layer.named_parameters())

    def loss(weights: dict[str, Tensor], feat: Tensor) -> Tensor:
        out = functional_call(layer, weights, (graph, feat))
        return (out[0] if isinstance(out, tuple) else out).square().sum()

    by_weight, by_feat = grad(loss, (0, 1))(weights, FEAT)
    feat = FEAT.clone().requires_grad_()
    leaves, expected = [*weights.values(), feat], run(layer, fresh(), feat).square().sum()
    grads = torch.autograd.grad(expected, leaves, allow_unused=True, materialize_grads=True)
    return flat([*by_weight.values(), by_feat]), flat(grads)


def flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([x.flatten() for x in tensors])


def by_jvp(layer: nn.Module, graph: Any) -> tuple[Tensor, Tensor]:
    return jvp(lambda x: run(layer, graph, x), (FEAT,), (TANGENT,))[1], slope(layer)


def by_dual_numbers(layer: nn.Module, graph: Any) -> tuple[Tensor, Tensor]:
    with forward_ad.dual_level():
        out = run(layer, graph, forward_ad.make_dual(FEAT, TANGENT))
        return forward_ad.unpack_dual(out).tangent.clone(), slope(layer)


def by_jacobian(transform: Any, layer: nn.Module, graph: Any) -> tuple[Tensor, Tensor]:
    jacobian = transform(lambda x: run(layer, graph, x))(FEAT)
    return (jacobian * TANGENT).sum((-1, -2)), slope(layer)


def by_vmap(layer: nn.Module, graph: Any) -> tuple[Tensor, Tensor]:
    feats = torch.stack([FEAT, TANGENT])
    found = vmap(lambda x: run(layer, graph, x))(feats)
    return found, torch.stack([run(layer, fresh(), x) for x in feats])


WAYS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "grad": by_grad,
    "jvp": by_jvp,
    "dual_numbers": by_dual_numbers,
    "jacrev": partial(by_jacobian, jacrev),
    "jacfwd": partial(by_jacobian, jacfwd),
    "vmap": by_vmap,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["attention", "step", "fixed", *MODES["halted"]])
@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
def test_in_transform_layers_are_right_or_refuse(backend: str, name: str, way: str) -> None:
    layer, graph = layer_of(name, backend), fresh()
    refused = "" if backend in RIGHT else rf"backend '{backend}' .*use backend='torch' or .*'dense'"
    if name in MODES["halted"] and way in ("vmap", "jacfwd"):
        refused = "vmap would halt at different steps: .*dgl.batch"
    if refused:
        refuses(refused, WAYS[way], layer, graph)
    else:
        found, expected = WAYS[way](layer, graph)
        assert_same([found], [expected], 1e-8 if "j" in way or "dual" in way else 1e-10)
        assert expected.abs().max() > 0.05
    if backend != "triton":  # nothing that a transform made is left with the graph
        assert_same([run(layer, graph, FEAT)], [run(layer, fresh(), FEAT)])


@pytest.mark.parametrize("get_attention", [False, True])
@pytest.mark.parametrize("nodes", [None, [1, 3]])
@pytest.mark.parametrize("backend", RIGHT)
def test_in_transform_edge_attention_has_the_gradients_of_dense(
    backend: str, nodes: list[int] | None, get_attention: bool
) -> None:
    layout, options = as_layout(fresh()), {"get_attention": get_attention}
    given = [x.detach() for x in inputs(layout, None if nodes is None else len(nodes))]
    scale, bias = normal(len(given[0])).detach(), normal(layout.num_edges, 2).detach()

    def loss(name: str, *tensors: Tensor) -> Tensor:
        frontier = None if nodes is None else torch.tensor(nodes).clone()  # wrapped in a transform
        more = {"scale": scale, "edge_bias": bias, "dropout": 0.4, "seed": 3, "backend": name}
        plain = edge_attention(layout, *tensors, frontier=frontier, backend=name)
        out = edge_attention(layout, *tensors, frontier=frontier, **more, **options)
        return sum(x.sin().sum() for x in (plain, *(out if get_attention else [out])))

    leaves = [x.clone().requires_grad_() for x in given]
    expected = torch.autograd.grad(loss("dense", *leaves), leaves)
    assert_same(grad(partial(loss, backend), (0, 1, 2))(*given), expected)
    slope = jvp(partial(loss, backend), tuple(given), tuple(map(torch.ones_like, given)))[1]
    assert_same([slope], [sum(x.sum() for x in expected)])


def test_in_transform_layouts_can_be_made() -> None:
    layer, pairs = randomised(MultiHeadAttention(FEATS, HEADS)), torch.stack(fresh().edges())
    expected = gradients([layer(fresh(), FEAT)], [layer.query.weight])
    made = []

    def loss(x: Tensor) -> Tensor:
        made.append(Causal().layout([4]))
        return LayerAsConv(layer)(x, pairs).sum() + layer(made[0], x).sum()

    assert grad(loss)(FEAT).shape == vmap(grad(loss))(FEAT[None])[0].shape
    assert_same([layer(made[0], FEAT)], [layer(Causal().layout([4]), FEAT)])
    assert_same(gradients([layer(fresh(), FEAT)], [layer.query.weight]), expected)


@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_what_is_kept_with_a_graph_in_inference_mode_serves_in_training(backend: str) -> None:
    unit, rule = HaltingUnit(FEATS).double(), Global(ACT())
    step = build_step()
    step.attention.backend = backend
    layer, graph = AdaptiveRecurrence(step, unit, rule=rule), Complete().graph([3, 1])
    with torch.inference_mode():
        before = layer(graph, FEAT)[0]
    out = layer(graph, FEAT)[0]
    assert torch.equal(out, before)
    out.sum().backward()


def test_in_vmap_a_step_takes_a_pair_of_features() -> None:
    step, graph, feats = build_step(), fresh(), torch.stack([FEAT, TANGENT])
    found = vmap(lambda x: step(graph, (x, x)))(feats)
    assert_same([found], [torch.stack([step(graph, x) for x in feats])])
