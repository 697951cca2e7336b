"""Decoders over small recurrences in every mode, and token decoders that are mere tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphut.models.decoding.decoder import EncodedSource, TokenDecoder
from graphut.nn import AdaptiveRecurrence, HaltingUnit, parse_rule
from graphut.topology import (
    Complete,
    Topology,
    node_positions,
    parse,
    token_nodes,
    with_extra_nodes,
)
from graphut.topology.cross import cross_layout, cross_topology
from tests.helpers import normal
from tests.nn.cases import FEATS, RULES, build_case, randomised

VOCABULARY = 5
SOURCES = [4, 6, 3]
MODES: dict[str, Sequence[Any]] = {
    "halted": ("copied", "frozen", "stale", "running"),
    "norm": ("post", "pre"),
    "transition": ("positionwise", "sepconv"),
    "halt_from": ("input", "output"),
    "weighting": ("sum", "ema", "last"),
    "adaptive": (True, False),
    "topology": ("causal", "window:2&causal"),
    "cross": ("complete", "window:1"),
    "scale_by_degree": (False, True),
    "changed": ("", "max_steps=3", "max_steps=9", "rule=act:threshold=0.4"),
}


@dataclass
class Setting:
    """All that a decoder is made of."""

    recurrence: AdaptiveRecurrence
    source: EncodedSource
    topology: Topology
    embed: Callable[[Tensor], Tensor]
    predict: Callable[[Tensor], Tensor]

    def decoder(self, kind: Callable[..., TokenDecoder]) -> TokenDecoder:
        sentences = torch.arange(len(self.source.lengths))
        parts = (self.recurrence, self.source, self.topology, self.embed, self.predict)
        return kind(*parts, sentences)

    def fed(self, sentences: Tensor, prefixes: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and steps of the last token of each prefix, by one run of the recurrence."""
        rows, length = prefixes.shape
        parts = self.source.feat.split(self.source.lengths.tolist())
        lengths, own = torch.full((rows,), length), self.source.lengths[sentences]
        who, every = self.topology, Complete()
        out, ponder = self.recurrence(
            who.layout(lengths),
            with_extra_nodes(who, self.embed(prefixes.flatten()), lengths),
            positions=node_positions(who, lengths),
            graph_ids=sentences.repeat_interleave(length),
            cross=(
                cross_layout(self.source.topology, lengths, own, decoder=who, encoder=every),
                torch.cat([parts[sentence] for sentence in sentences.tolist()]),
            ),
        )
        last = token_nodes(who, lengths)[length - 1 :: length]
        return self.predict(out[last]), ponder.steps[last]


def build_setting(
    *,
    topology: str = "causal",
    cross: str = "complete",
    norm: str = "post",
    adaptive: bool = True,
    changed: str = "",
    rule: str = "act",
    **modes: Any,
) -> Setting:
    """A recurrence with random weights between a random embedding and a random projection."""
    layer = build_case(
        form="decoder", norm=norm, halting=_pre_norm_halting() if norm == "pre" else None, **modes
    ).layer.requires_grad_(False)
    if not adaptive:
        layer.rule = layer.halting = None
    if rule != "act":
        layer.rule = RULES[rule]
    if changed and (adaptive or "rule" not in changed):
        name, value = changed.split("=", 1)
        setattr(layer, name, parse_rule(value) if "rule" in name else int(value))
    embedding = 2 * normal(VOCABULARY, FEATS, seed=70).detach()
    projection = normal(FEATS, VOCABULARY, seed=71).detach()
    memory = normal(sum(SOURCES), 6, seed=72).detach()
    source = EncodedSource(memory, torch.tensor(SOURCES), cross_topology(cross))
    return Setting(
        layer, source, parse(topology), lambda token: embedding[token], lambda out: out @ projection
    )


def _pre_norm_halting() -> HaltingUnit:
    """One that halts the wide states of pre-norm at different steps."""
    unit: HaltingUnit = randomised(HaltingUnit(FEATS), seed=88)
    unit.linear.weight.data.mul_(0.3)
    unit.linear.bias.data.zero_()
    return unit


Growth = list[tuple[Tensor, Tensor, Tensor, Tensor]]


def growth(steps: int = 6, seed: int = 0) -> Growth:
    """How hypotheses branch, cross and die: parents, tokens, sentences and whole prefixes."""
    generator = torch.Generator().manual_seed(seed)
    sentences, prefixes = (
        torch.arange(len(SOURCES)),
        torch.zeros(len(SOURCES), 0, dtype=torch.int64),
    )
    parents, tokens, found = sentences, torch.zeros_like(sentences), []
    for _ in range(steps):
        sentences = sentences[parents]
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], 1)
        found.append((parents, tokens, sentences, prefixes))
        parents = torch.randint(len(parents), (5,), generator=generator)
        tokens = torch.randint(VOCABULARY, (5,), generator=generator)
    return found


class Table:
    """A token decoder with random logits for each sentence and prefix, some flat, some steep."""

    def __init__(self, sentences: int, vocabulary: int, seed: int) -> None:
        self.prefixes = [(sentence,) for sentence in range(sentences)]
        self.vocabulary, self.seed = vocabulary, seed

    def advance(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        pairs = zip(parents.tolist(), tokens.tolist(), strict=True)
        self.prefixes = [(*self.prefixes[parent], token) for parent, token in pairs]
        rows = [self.row(prefix) for prefix in self.prefixes]
        return torch.stack(rows), torch.tensor([steps_of(prefix) for prefix in self.prefixes])

    def row(self, prefix: tuple[int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, *prefix)) % 2**31)
        spread = 4 * torch.rand(1, generator=generator) ** 2
        return spread * torch.randn(self.vocabulary, generator=generator)


def steps_of(prefix: Sequence[int]) -> int:
    """The steps that a `Table` says the last token of a prefix took."""
    return hash(tuple(prefix)) % 7 + 1
