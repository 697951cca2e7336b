from __future__ import annotations

import pytest
import torch
from torch import nn

from graphut.experiments.bench.padded_model import PaddedModel
from graphut.experiments.bench.padding import PaddedBatch, padded_mask
from graphut.nn import (
    AdaptiveRecurrence,
    MultiHeadAttention,
    PositionwiseTransition,
    ScheduledHalting,
    UniversalTransformerStep,
)
from graphut.topology import Topology
from tests.experiments.bench.cases import TOPOLOGIES
from tests.helpers import assert_same, normal


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
def test_padded_model_equals_the_recurrence(topology: Topology) -> None:
    lengths, depth = torch.tensor([3, 1, 4]), torch.tensor([1, 3, 2, 3, 1, 1, 3, 2])
    step = UniversalTransformerStep(
        MultiHeadAttention(8, 2, backend="torch"),
        PositionwiseTransition(8, 16, activation=nn.GELU()),
    ).double()
    layer = AdaptiveRecurrence(step, ScheduledHalting(depth, share=0.1), max_steps=3)
    feat, layout, padded = normal(8, 8), topology.layout(lengths), PaddedBatch.of(lengths)
    place = padded.index[:, 1] + 1
    expected, _ = layer(layout, feat, positions=place)

    mask = padded_mask(padded, padded, layout.in_edges()[:2])
    model = PaddedModel(step, mask, max_steps=3, share=0.1)
    out = model(padded.pad(feat), padded.pad(depth))
    assert_same([padded.unpad(out)], [expected])
