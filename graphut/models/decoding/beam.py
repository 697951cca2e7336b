"""Beam search over the hypotheses of a decoder."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphut.models.decoding.decoder import TokenDecoder
from graphut.models.decoding.search import Hypothesis, SearchOptions, exclude
from graphut.sentences import EOS


@dataclass
class _Beam(Hypothesis):
    """A hypothesis of a sentence, and the row of its parent in the decoder's last batch."""

    sentence: int = 0
    row: int = 0

    def rank(self, penalty: float, length: int | None = None) -> float:
        divisor: float = ((5 + (length or len(self.tokens))) / 6) ** penalty
        return self.score / divisor


def beam_search(
    decoder: TokenDecoder, first: Tensor, options: SearchOptions, *, never: int | None = None
) -> list[Hypothesis]:
    r"""Return the best finished hypothesis of each sentence; parameters as for `sample`.

    Hypotheses are ranked by their log-probability over
    :math:`((5 + length) / 6)^{penalty}` (arXiv 1609.08144, Eq. 14), and one that reaches
    `max_length` counts as finished. Sentences do not influence each other.
    """
    max_length, penalty = options.max_length, options.length_penalty
    live = [_Beam(sentence=sentence) for sentence in range(len(first))]
    best: list[_Beam | None] = [None] * len(first)
    parents, tokens = torch.arange(len(first)), first
    for length in range(1, max_length + 1):
        logits, steps = decoder.advance(parents, tokens)
        scores = exclude(logits.double().log_softmax(-1), never)
        # One more than the beam, as `eos` may be among them.
        extended = _extend(live, scores, steps.tolist(), options.beam_size + 1)
        live = []
        for sentence, beams in extended.items():
            ended = [b for b in beams if b.tokens[-1] == EOS or length == max_length]
            candidates = [*ended, *([kept] if (kept := best[sentence]) else [])]
            top = best[sentence] = max(candidates, key=lambda b: b.rank(penalty), default=None)
            active = [b for b in beams if b.tokens[-1] != EOS][: options.beam_size]
            if top is not None:  # drop those that cannot rank higher: a score only falls
                active = [b for b in active if b.rank(penalty, max_length) > top.rank(penalty)]
            live += active
        if not live:  # at `max_length` at the latest, where nothing active is above the best
            break
        parents = torch.tensor([beam.row for beam in live])
        tokens = torch.tensor([beam.tokens[-1] for beam in live], device=first.device)
    return [beam for beam in best if beam]  # all: at `max_length` every hypothesis is finished


def _extend(
    live: list[_Beam], scores: Tensor, steps: list[int], count: int
) -> dict[int, list[_Beam]]:
    """Return the `count` likeliest extensions of each beam, by sentence, the likeliest first."""
    top = scores.topk(min(count, scores.shape[-1]), -1)
    rows = zip(live, top.values.tolist(), top.indices.tolist(), steps, strict=True)
    extended: dict[int, list[_Beam]] = {beam.sentence: [] for beam in live}
    for row, (beam, values, tokens, step) in enumerate(rows):
        extended[beam.sentence] += [
            _Beam([*beam.tokens, t], [*beam.steps, step], beam.score + s, beam.sentence, row)
            for s, t in zip(values, tokens, strict=True)
        ]
    return {i: sorted(beams, key=lambda b: -b.score) for i, beams in extended.items()}
