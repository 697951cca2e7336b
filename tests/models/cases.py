"""Small models with random weights, whose tokens halt at different steps."""

from __future__ import annotations

from typing import Any

import torch

from graphut.models import UniversalTransformer, UniversalTransformerConfig
from tests.nn.cases import randomised

VOCABULARY = 7
SOURCES = [[3, 2, 5, 4], [6], [2, 2, 5, 3, 4, 6]]
TARGETS = [[2, 4, 3], [], [5, 5, 6, 2, 3]]


def small(**options: Any) -> UniversalTransformerConfig:
    """A small shape."""
    shape = {"source_vocab": VOCABULARY, "target_vocab": VOCABULARY, "d_model": 8, "num_heads": 2}
    return UniversalTransformerConfig(**{**shape, "d_hidden": 12, "max_steps": 5, **options})


def build_model(seed: int = 10, **options: Any) -> UniversalTransformer:
    """A model in evaluation mode and float64."""
    model: UniversalTransformer = randomised(UniversalTransformer(small(**options)), seed)
    scale, bias = (1.5, -0.3) if model.config.norm == "post" else (0.5, -0.6)
    for part in (model.encoder, model.decoder):
        if part.halting is not None:
            part.halting.linear.weight.data.mul_(scale)
            part.halting.linear.bias.data.fill_(bias)
    return model.eval()


def logits_of(model: UniversalTransformer) -> torch.Tensor:
    """What a model says of `SOURCES` and `TARGETS`."""
    return model(model.sentence_graph(SOURCES, TARGETS)).logits.detach()
