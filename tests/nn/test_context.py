from __future__ import annotations

import torch

from graphut.nn import PositionwiseTransition, SeparableConvTransition
from graphut.nn.context import EncoderOutput, GraphContext
from graphut.topology import Complete
from tests.helpers import assert_same, normal
from tests.nn.cases import build_step, randomised

LAYOUT = Complete().layout([3, 2])
SOME = torch.tensor([1, 4])


def test_context_what_is_not_written_stays() -> None:
    context = GraphContext(LAYOUT)
    first, later = normal(5, 16), normal(2, 16, seed=1)
    context.write(None, first)
    assert context.key_value is first
    context.write(SOME, later)
    assert_same([context.key_value[SOME], context.key_value[[0, 2, 3]]], [later, first[[0, 2, 3]]])
    assert torch.equal(first, normal(5, 16))


def test_context_the_frontier_attends_to_what_was_written() -> None:
    layer, feat = build_step().attention, normal(5, 8)
    shift = normal(8, seed=1)
    context = GraphContext(LAYOUT, frontier=SOME, value_shift=shift)
    context.write(None, layer.project(feat))
    shifted = layer.project(feat) + torch.cat([torch.zeros(8), shift])
    expected = layer.attend(LAYOUT, feat, shifted)[0]
    assert_same([context.attend(layer, feat[SOME])], [expected[SOME]])


def test_context_the_frontier_attends_to_the_source() -> None:
    layer = build_step(form="decoder").cross_attention
    rows, source = normal(5, 8), normal(3, 6, seed=1)
    cross = Complete().layout([3, 2], [1, 2])
    context = GraphContext(LAYOUT, cross, EncoderOutput(source), frontier=SOME)
    assert_same([context.cross_attend(layer, rows[SOME])], [layer(cross, (source, rows))[SOME]])


def test_context_the_source_is_projected_once_by_each_layer_that_asks() -> None:
    layers = [build_step(form="decoder", seed=seed).cross_attention for seed in (0, 1)]
    encoded = EncoderOutput(normal(3, 6))
    assert encoded.flops == 0
    found = [encoded.key_value(layer) for layer in layers]
    assert_same(found, [layer.project(encoded.feat) for layer in layers])
    assert encoded.key_value(layers[0]) is found[0]
    assert encoded.flops == 2 * 3 * layers[0].key_value_flops


def test_context_a_convolution_reads_what_halted_neighbours_last_gave() -> None:
    conv = randomised(SeparableConvTransition(8, 12))
    context = GraphContext(LAYOUT)
    first, later = normal(5, 8), normal(2, 8, seed=1)
    assert_same([context.feed_forward(conv, first)], [conv(LAYOUT, first)])
    context.frontier = SOME
    both = first.index_copy(0, SOME, later)
    assert_same([context.feed_forward(conv, later)], [conv(LAYOUT, both)[SOME]])


def test_context_a_positionwise_transition_reads_its_rows_alone() -> None:
    transition, rows = randomised(PositionwiseTransition(8, 12)), normal(2, 8)
    context = GraphContext(LAYOUT, frontier=SOME)
    assert_same([context.feed_forward(transition, rows)], [transition.layers(rows)])
    assert context.combined is None
