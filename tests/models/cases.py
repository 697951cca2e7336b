"""Small models with random weights, whose nodes halt at different steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut._tokens import EOS
from graphut.models import (
    UniversalTransformer,
    UniversalTransformerConfig,
    UniversalTransformerLM,
)
from graphut.models.outputs import Generation
from graphut.nn import Ponder
from graphut.topology import Topology
from tests.helpers import covering
from tests.nn.cases import randomised

VOCABULARY = 7
SOURCES = [[3, 2, 5, 4], [6], [2, 2, 5, 3, 4, 6]]
TARGETS = [[2, 4, 3], [], [5, 5, 6, 2, 3]]
SIZES = {"d_model": 8, "num_heads": 2, "d_hidden": 12, "max_steps": 5}
SEARCHES: list[dict[str, Any]] = [
    {},
    {"beam_size": 3},
    {"beam_size": 4, "length_penalty": 2.0},
    {"temperature": 0.8},
]


def small(**options: Any) -> UniversalTransformerConfig:
    sizes = {**SIZES, "source_vocab": VOCABULARY, "target_vocab": VOCABULARY}
    return UniversalTransformerConfig(**{**sizes, **options})


def _builder(kind: type[Any], seed: int, **sizes: Any) -> Callable[..., Any]:
    """A function that builds a model in evaluation mode and float64."""

    def build(seed: int = seed, **options: Any) -> Any:
        config = kind.config_class(**{**SIZES, **sizes, **options})
        model = randomised(kind(config), seed)
        scale, bias = (1.5, -0.3) if config.norm == "post" else (0.5, -0.6)
        for part in (getattr(model, name, None) for name in ("encoder", "decoder")):
            if part is not None and part.halting is not None:
                part.halting.linear.weight.data.mul_(scale)
                part.halting.linear.bias.data.fill_(bias)
        return model.eval()

    return build


build_model = _builder(UniversalTransformer, 10, source_vocab=VOCABULARY, target_vocab=VOCABULARY)
build_language_model = _builder(UniversalTransformerLM, 18, vocab_size=VOCABULARY)


@dataclass(frozen=True)
class Case:
    """A model, samples for it, and modes that depend on each other in pairs."""

    build: Callable[..., Any]
    samples: Sequence[Any]
    modes: dict[str, Any]
    extra_rows: Sequence[dict[str, Any]] = ()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [*covering(**self.modes), *self.extra_rows]

    def run(self, model: Any, samples: Sequence[Any] | None = None, **options: Any) -> Any:
        samples = self.samples if samples is None else samples
        if isinstance(model, UniversalTransformer):
            return model(*zip(*samples, strict=True), **options)
        return model(samples, **options)


EXTRA: list[dict[str, Any]] = [
    {"encoder_topology": "star"},
    {"encoder_topology": "window:1|expander:2@1|virtual:2", "cross_topology": "window:1"},
    {"encoder_topology": "binary_partition:1", "decoder_topology": "binary_partition:1&causal"},
    *(
        {"encoder_topology": "star", "decoder_topology": spec, "halted": halted}
        for spec, halted in (
            ("(window:1|virtual:2)&causal", "copied"),
            ("(window:1|virtual:2)&causal", "frozen"),
            ("star&causal", "stale"),
            ("star&causal", "running"),
        )
    ),
]
STEP = {
    "halted": ("copied", "frozen", "stale", "running"),
    "norm": ("post", "pre"),
    "transition": ("positionwise", "sepconv"),
    "adaptive": (True, False),
}
CASES = {
    "pairs": Case(
        build_model,
        list(zip(SOURCES, TARGETS, strict=True)),
        STEP
        | {
            "decoder_topology": ("causal", "window:2&causal"),
            "share_embeddings": (True, False),
            "add_bos_eos": (False, True),
            "source_positions": ("start", "both"),
        },
        EXTRA,
    ),
    "texts": Case(
        build_language_model,
        [[3, 2, 5, 4], [], [6], [2, 2, 5, 3, 4, 6]],
        STEP
        | {
            "topology": ("causal", "window:2&causal"),
            "scale_by_degree": (False, True),
        },
    ),
}


def logits_of(model: UniversalTransformer) -> Tensor:
    """The logits for `SOURCES` and `TARGETS`."""
    return model(SOURCES, TARGETS).logits.detach()


@dataclass(frozen=True)
class LatterHalf(Topology):
    """Causal, but how far a token looks back depends on the length of the sentence."""

    name = "latter_half"

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        return dst - n_dst // 2, dst + 1


def plain_greedy(model: Any, source: list[int], max_length: int) -> Generation:
    """Greedy decoding with the forward pass alone, for longer and longer targets or texts."""
    is_text = isinstance(model, UniversalTransformerLM)
    before = len(source) if is_text else 0
    tokens: list[int] = []
    score, steps = 0.0, list[int]()
    while len(steps) < max_length and tokens[-1:] != [EOS]:
        output = model([[*source, *tokens]]) if is_text else model([source], [tokens])
        taken = output.steps if is_text else output.decoder.steps
        steps.append(int(taken[before + len(tokens)]))  # tokens come before extra nodes
        likely = output.logits[-1].log_softmax(-1)
        tokens.append(1 + int(likely[1:].argmax()))  # bos is never generated
        score += likely[tokens[-1]].item()
    if is_text:
        of_source = [int(model([source[:n]]).steps[-1]) for n in range(len(source))]
    else:
        encoder = model([source], [tokens]).encoder.steps[int(model.config.add_bos_eos) :]
        of_source = encoder[: len(source)].tolist()
    return Generation([token for token in tokens if token != EOS], score, steps, of_source)


def assert_same_generations(found: list[Generation], expected: list[Generation]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert (a.tokens, a.steps, a.source_steps) == (b.tokens, b.steps, b.source_steps)
        assert a.score == pytest.approx(b.score, abs=1e-10)


def assert_decodes_as_forward(model: Any, sources: list[list[int]], max_length: int) -> None:
    """Greedy decoding gives what the forward pass alone gives."""
    expected = [plain_greedy(model, source, max_length) for source in sources]
    assert_same_generations(model.generate(sources, max_length=max_length), expected)


def seeded(options: dict[str, Any]) -> dict[str, Any]:
    """Options of `generate`, with a new generator for sampling."""
    return {**options, "generator": torch.Generator().manual_seed(0)}


def rows_of(output: Any) -> list[torch.Tensor]:
    """The parts of an output with rows that belong to single samples."""
    ponders = [part for part in output if isinstance(part, Ponder)]
    own = [getattr(output, name) for name in ("labels", "steps") if hasattr(output, name)]
    if not own:
        own = [part for ponder in ponders for part in (ponder.steps, ponder.remainder)]
    return [output[0], *own]
