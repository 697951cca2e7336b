import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

from graphut.nn import (
    ACT,
    AdaptiveRecurrence,
    HaltingUnit,
    PositionwiseTransition,
    SeparableConvTransition,
)
from graphut.topology import Causal, Complete, Star, Virtual
from tests.helpers import assert_same, gradients, normal, refuses
from tests.nn.cases import FEATS, build_step, randomised
from tests.nn.reference import dense_recurrence

LENGTHS = [4, 1, 2]
GRAPH = Complete().layout(LENGTHS)
SOME = torch.tensor([0, 3, 4, 6])


def by_conv1d(layer: SeparableConvTransition, feat: Tensor) -> Tensor:
    """Convolve each sentence with torch's `conv1d`."""
    right = 0 if layer.causal else layer.kernel_size // 2
    ends = (layer.kernel_size - 1 - right, right)
    weight = layer.depthwise.T[:, None]
    rows = [
        conv1d(pad(sentence.T[None], ends), weight, groups=feat.shape[1])[0].T
        for sentence in feat.split(LENGTHS)
    ]
    return layer.layers(torch.cat(rows))


@pytest.mark.parametrize(
    ("kernel_size", "causal"), [(1, False), (3, False), (7, False), (1, True), (2, True), (5, True)]
)
def test_separable_conv_equals_conv1d_in_each_sentence(kernel_size: int, causal: bool) -> None:
    layer = randomised(SeparableConvTransition(6, 9, kernel_size=kernel_size, causal=causal))
    feat = normal(7, 6)
    inputs = [feat, *layer.parameters()]
    found, expected = layer(GRAPH, feat), by_conv1d(layer, feat)
    assert_same([found], [expected])
    assert_same(gradients([found], inputs), gradients([expected], inputs))
    assert_same([layer(GRAPH, feat, frontier=SOME)], [expected[SOME]])
    assert_same([layer(Causal().graph(LENGTHS), feat)], [expected])


@pytest.mark.parametrize("halted", ["copied", "frozen", "stale", "running"])
def test_separable_conv_reads_zeros_of_nodes_that_take_no_step(halted: str) -> None:
    step = build_step(transition="sepconv")
    unit = HaltingUnit(FEATS, gain=4.0, bias_init=1.0)
    rule = ACT(threshold=0.8, min_steps=0)
    layer = randomised(AdaptiveRecurrence(step, unit, rule=rule, max_steps=4, halted=halted))
    feat = normal(7, FEATS)
    out, ponder = layer(GRAPH, feat)
    assert 0 in ponder.steps and len(ponder.steps.unique()) > 1
    expected = dense_recurrence(layer, GRAPH, feat)[0]
    inputs = [feat, *layer.parameters()]
    assert_same([out, *gradients([out], inputs)], [expected, *gradients([expected], inputs)])


def test_transition_node_flops() -> None:
    assert PositionwiseTransition(6, 9).node_flops == 4 * 6 * 9
    layer = SeparableConvTransition(6, 9, kernel_size=5)
    assert layer.node_flops == 4 * 6 * 9 + 2 * 5 * 6
    assert "kernel_size=5, causal=False" in repr(layer)


@pytest.mark.parametrize(("kernel_size", "causal"), [(0, False), (4, False), (-1, True), (0, True)])
def test_separable_conv_refuses_kernel_sizes(kernel_size: int, causal: bool) -> None:
    with pytest.raises(ValueError, match=f"1 or more, odd unless causal; got {kernel_size}"):
        SeparableConvTransition(6, 9, kernel_size=kernel_size, causal=causal)


def test_separable_conv_needs_the_features_of_all_nodes() -> None:
    with pytest.raises(ValueError, match="feat has 4 rows; the graph has 7 nodes"):
        SeparableConvTransition(6, 9)(GRAPH, normal(4, 6), frontier=SOME)


def test_separable_conv_refuses_nodes_that_are_not_tokens() -> None:
    layer = AdaptiveRecurrence(build_step(transition="sepconv"), max_steps=2)
    words, feat = "nodes that are not tokens: use PositionwiseTransition", normal(7, 8)
    composed = Star() & Causal() | Causal()
    for layout in (Star().layout([3, 2]), Virtual(2).layout([2, 1]), composed.layout([3, 2])):
        refuses(words, layer, layout, feat)
    for topology in (Star(), composed):
        refuses(words, layer, topology.graph([3, 2]), feat)
