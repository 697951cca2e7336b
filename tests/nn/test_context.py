from __future__ import annotations

import torch

from graphut.nn.context import EncoderOutput, GraphContext
from graphut.topology import Complete
from tests.helpers import assert_same, normal
from tests.nn.cases import build_step

SOME = torch.tensor([1, 4])


def test_context_replaces_the_rows_that_are_written_in_a_copy() -> None:
    context, first, later = GraphContext(Complete().layout([5])), normal(5, 16), normal(2, 16)
    context.write(None, first)
    context.write(SOME, later)
    assert_same([context.key_value], [first.index_copy(0, SOME, later)])
    assert_same([first], [normal(5, 16)])


def test_context_projects_the_source_once_for_each_layer() -> None:
    layers = [build_step(form="decoder", seed=seed).cross_attention for seed in (0, 1)]
    encoded = EncoderOutput(normal(3, 6))
    found = [encoded.key_value(layer) for layer in layers]
    assert_same(found, [layer.project(encoded.feat) for layer in layers])
    assert encoded.key_value(layers[0]) is found[0]
    assert encoded.flops == 2 * 3 * layers[0].key_value_flops
