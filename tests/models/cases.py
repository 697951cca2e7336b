"""Small models with random weights, whose tokens halt at different steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.models import (
    UniversalTransformer,
    UniversalTransformerClassifier,
    UniversalTransformerClassifierConfig,
    UniversalTransformerConfig,
)
from graphut.models.outputs import Generation
from graphut.sentences import EOS
from graphut.topology import Topology
from tests.nn.cases import randomised

VOCABULARY = 7
SOURCES = [[3, 2, 5, 4], [6], [2, 2, 5, 3, 4, 6]]
TARGETS = [[2, 4, 3], [], [5, 5, 6, 2, 3]]
SEARCHES: list[dict[str, Any]] = [
    {},
    {"beam_size": 3},
    {"beam_size": 4, "length_penalty": 2.0},
    {"temperature": 0.8, "top_p": 0.9},
]


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
    return model(SOURCES, TARGETS).logits.detach()


@dataclass(frozen=True)
class LatterHalf(Topology):
    """Causal, but how far a token looks back depends on how long the sentence is."""

    name = "latter_half"

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        return dst - n_dst // 2, dst + 1


def plain_greedy(model: UniversalTransformer, source: list[int], max_length: int) -> Generation:
    """Greedy decoding by the forward pass alone, over ever longer targets."""
    tokens: list[int] = []
    score, steps = 0.0, []
    while len(steps) < max_length and tokens[-1:] != [EOS]:
        logits, encoder, decoder = model([source], [tokens])
        steps.append(int(decoder.steps[len(tokens)]))  # tokens come before extra nodes
        likely = logits[-1].log_softmax(-1)
        tokens.append(1 + int(likely[1:].argmax()))  # bos is never taken
        score += likely[tokens[-1]].item()
    return Generation(
        tokens[: tokens.index(EOS)] if EOS in tokens else tokens,
        score,
        steps,
        encoder.steps[int(model.config.add_bos_eos) :][: len(source)].tolist(),
    )


def assert_same_generations(found: list[Generation], expected: list[Generation]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert (a.tokens, a.steps, a.source_steps) == (b.tokens, b.steps, b.source_steps)
        assert a.score == pytest.approx(b.score, abs=1e-10)


def seeded(options: dict[str, Any]) -> dict[str, Any]:
    """Options of `generate`, with a fresh generator for those that draw."""
    return {**options, "generator": torch.Generator().manual_seed(0)}


def build_classifier(seed: int = 18, **options: Any) -> UniversalTransformerClassifier:
    """A small model with random weights and masks, in evaluation mode and float64."""
    shape = {"vocab_size": 9, "classes": 4, "d_model": 8, "num_heads": 2}
    config = UniversalTransformerClassifierConfig(
        **{**shape, "d_hidden": 12, "max_steps": 5, "longest_sentence": 4, **options}
    )
    model: UniversalTransformerClassifier = randomised(UniversalTransformerClassifier(config), seed)
    if model.encoder.halting is not None:
        model.encoder.halting.linear.weight.data.mul_(1.5 if config.norm == "post" else 0.5)
        model.encoder.halting.linear.bias.data.fill_(-0.3)
    return model.eval()
