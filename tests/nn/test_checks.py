from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.nn import AdaptiveRecurrence, MultiHeadAttention
from graphut.nn.checks import check_feat
from graphut.topology import Complete
from tests.helpers import normal
from tests.nn.cases import build_step

GRAPH, CROSS = Complete().layout([4]), Complete().layout([4], [2])
FEAT, SOURCE = normal(4, 8), normal(2, 6)

WRONG = {
    "too-few": (FEAT[:3], ValueError, "4 {} nodes, but their features have shape (3, 8)"),
    "too-many": (normal(5, 8), ValueError, "4 {} nodes, but their features have shape (5, 8)"),
    "flat": (FEAT[:, 0], ValueError, "shape (4,); give one row of 8 features a node"),
    "heads": (normal(4, 2, 4), ValueError, "shape (4, 2, 4)"),
    "wide": (normal(4, 9), ValueError, "shape (4, 9); give one row of 8 features a node"),
    "single": (
        FEAT.float(),
        TypeError,
        "{} nodes are torch.float32, but the layer",
    ),
    "integer": (FEAT.long(), TypeError, "{} nodes are torch.int64"),
    "an array": (
        FEAT.detach().numpy(),
        TypeError,
        "{} nodes must be a tensor, got ndarray; convert",
    ),
    "a list": (FEAT.tolist(), TypeError, "{} nodes must be a tensor, got list; convert"),
    "elsewhere": (FEAT.to("meta"), ValueError, "are on meta, but the layer is on cpu"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_features_that_do_not_fit(wrong: str) -> None:
    feat, error, words = WRONG[wrong]
    step = build_step()
    check_feat(FEAT, "source", 4, 8, step.attention)
    calls = [
        (step.attention, "source", (feat, FEAT)),
        (step.attention, "destination", (FEAT, feat)),
        (step, "source", feat),
        (AdaptiveRecurrence(step), "source", feat),
    ]
    for layer, side, given in calls:
        with pytest.raises(error, match=re.escape(words.format(side))):
            layer(GRAPH, given)


@pytest.mark.parametrize(
    ("source", "words"),
    [(SOURCE[:1], "2 source nodes"), (normal(2, 8), "shape (2, 8)"), (SOURCE.float(), "float32")],
)
def test_a_decoders_source_that_does_not_fit(source: Tensor, words: str) -> None:
    step = build_step(form="decoder")
    step(GRAPH, FEAT, cross=(CROSS, SOURCE))
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        step(GRAPH, FEAT, cross=(CROSS, source))


def test_under_autocast_narrower_features_are_taken() -> None:
    layer: Any = MultiHeadAttention(8, 2)
    feat = FEAT.detach().bfloat16()
    with pytest.raises(TypeError, match=r"are torch.bfloat16, but the layer is torch.float32"):
        layer(GRAPH, feat)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(GRAPH, feat).dtype == torch.bfloat16
        with pytest.raises(TypeError, match=r"are torch.int64"):
            layer(GRAPH, feat.long())
