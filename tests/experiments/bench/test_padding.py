import pytest
import torch
from torch import nn

from graphut.experiments.bench.padding import PaddedModel, pad, padded_mask, present_positions
from graphut.nn import (
    AdaptiveRecurrence,
    MultiHeadAttention,
    PositionwiseTransition,
    ScheduledHalting,
    UniversalTransformerStep,
)
from graphut.topology import Causal, Complete, parse
from tests.experiments.bench.cases import SPECS
from tests.helpers import assert_same, normal

LENGTHS = torch.tensor([2, 3])


def test_padded_mask_has_one_row_where_all_rows_are_equal() -> None:
    padded = present_positions(LENGTHS)
    for topology, rows in ((Complete(), 1), (Causal(), 3)):
        edges = topology.layout(LENGTHS).in_edges()[:2]
        assert padded_mask(padded, padded, edges).shape == (2, 1, rows, 3)


@pytest.mark.parametrize("spec", SPECS)
def test_padded_model_equals_the_recurrence(spec: str) -> None:
    lengths, depth = torch.tensor([3, 1, 4]), torch.tensor([1, 3, 2, 3, 1, 1, 3, 2])
    step = UniversalTransformerStep(
        MultiHeadAttention(8, 2, backend="torch"),
        PositionwiseTransition(8, 16, activation=nn.GELU()),
    ).double()
    layer = AdaptiveRecurrence(step, ScheduledHalting(depth, share=0.1), max_steps=3)
    feat, layout, padded = normal(8, 8), parse(spec).layout(lengths), present_positions(lengths)
    place = padded.nonzero()[:, 1] + 1
    expected, _ = layer(layout, feat, positions=place)

    mask = padded_mask(padded, padded, layout.in_edges()[:2])
    model = PaddedModel(step, mask, max_steps=3, share=0.1)
    out = model(pad(feat, padded), pad(depth, padded))
    assert_same([out[padded]], [expected])
