"""Greedy decoding, sampling and beam search with a `TokenDecoder`."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from graphut._tokens import BOS, EOS
from graphut.models.config import SearchOptions
from graphut.models.decoders import TokenDecoder


@dataclass
class Hypothesis:
    """A sequence of generated tokens, without `bos`; it ends with `eos` if `eos` was generated."""

    tokens: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)  # number of steps to predict each token
    score: float = 0.0  # log-probability


def _without_bos(scores: Tensor) -> Tensor:
    """Return scores `(B, vocabulary)` with minus infinity at `<bos>`, which is never generated."""
    return scores.index_fill(-1, torch.tensor(BOS, device=scores.device), -torch.inf)


def sample(decoder: TokenDecoder, first: Tensor, options: SearchOptions) -> list[Hypothesis]:
    """Return one hypothesis per sentence, by greedy decoding or by sampling.

    `first`, `(sentences,)` int64, has the first input token of each sentence. Tokens are sampled if
    `options` has a `temperature`, which divides the logits, or a `top_p` (nucleus sampling, arXiv
    1904.09751).
    """
    hypotheses = [Hypothesis() for _ in range(len(first))]
    active = list(range(len(first)))
    parents, tokens = torch.arange(len(first)), first
    for _ in range(options.max_length):
        logits, steps = decoder.advance(parents, tokens)
        tokens = _choose(_without_bos(logits), options)
        scores = logits.double().log_softmax(-1).gather(1, tokens[:, None])[:, 0]
        columns = zip(active, tokens.tolist(), steps.tolist(), scores.tolist(), strict=True)
        for sentence, token, count, score in columns:
            hypotheses[sentence].tokens.append(token)
            hypotheses[sentence].steps.append(count)
            hypotheses[sentence].score += score
        parents = (tokens != EOS).nonzero()[:, 0].cpu()
        if not parents.numel():
            break
        active = [active[parent] for parent in parents.tolist()]
        tokens = tokens[parents.to(tokens.device)]
    return hypotheses


def _choose(logits: Tensor, options: SearchOptions) -> Tensor:
    if not options.samples:
        return logits.argmax(-1)
    temperature = 1.0 if options.temperature is None else options.temperature
    # Subtract the maximum first, in float64: a tiny temperature must not overflow.
    below = logits.double() - logits.double().amax(-1, keepdim=True)
    probability = (below / temperature).softmax(-1)
    if options.top_p is not None:
        probability = nucleus(probability, options.top_p)
    drawn = torch.multinomial(probability.cpu(), 1, generator=options.generator)[:, 0]
    return drawn.to(logits.device)


def nucleus(probability: Tensor, top_p: float) -> Tensor:
    """Keep the fewest largest probabilities whose sum reaches `top_p`; set the others to 0."""
    ordered, token = probability.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    truncated = torch.where(before < top_p, ordered, 0.0)
    return torch.zeros_like(probability).scatter(-1, token, truncated)


@dataclass
class _Beam(Hypothesis):
    """A hypothesis of beam search, with the indices of its sentence and of its parent."""

    sentence: int = 0
    row: int = 0  # index of the parent among the hypotheses of the decoder

    def rank(self, penalty: float, length: int | None = None) -> float:
        """Return the rank, larger if better; `length`, if given, replaces the number of tokens."""
        divisor = penalty * math.log((5 + (length or len(self.tokens))) / 6)
        return divisor - math.log(-self.score) if self.score < 0 else math.inf


def beam_search(decoder: TokenDecoder, first: Tensor, options: SearchOptions) -> list[Hypothesis]:
    r"""Return the best finished hypothesis of each sentence; arguments are as for `sample`.

    Hypotheses are ranked by their log-probability divided by
    :math:`((5 + length) / 6)^{penalty}` (arXiv 1609.08144, Eq. 14). A hypothesis of `max_length`
    tokens counts as finished. The result for a sentence does not depend on the other sentences.
    """
    max_length, penalty = options.max_length, options.length_penalty
    live = [_Beam(sentence=sentence) for sentence in range(len(first))]
    best: list[_Beam | None] = [None] * len(first)
    parents, tokens = torch.arange(len(first)), first
    for length in range(1, max_length + 1):
        logits, steps = decoder.advance(parents, tokens)
        scores = _without_bos(logits.double().log_softmax(-1))
        # One more than the beam size, because one of them may be `eos`.
        extended = _extend(live, scores, steps.tolist(), options.beam_size + 1)
        live = []
        for sentence, beams in extended.items():
            ended = [b for b in beams if b.tokens[-1] == EOS or length == max_length]
            candidates = [*ended, *([kept] if (kept := best[sentence]) else [])]
            top = best[sentence] = max(candidates, key=lambda b: b.rank(penalty), default=None)
            active = [b for b in beams if b.tokens[-1] != EOS][: options.beam_size]
            if top is not None:  # drop hypotheses that cannot win: scores only fall
                active = [b for b in active if b.rank(penalty, max_length) > top.rank(penalty)]
            live += active
        if not live:  # at `max_length` at the latest, where nothing active is above the best
            break
        parents = torch.tensor([beam.row for beam in live])
        tokens = torch.tensor([beam.tokens[-1] for beam in live], device=first.device)
    return [beam for beam in best if beam]  # no None: at `max_length` every hypothesis ends


def _extend(
    live: list[_Beam], scores: Tensor, steps: list[int], count: int
) -> dict[int, list[_Beam]]:
    """Return a sorted list, for each sentence, of beams extended by their `count` best tokens."""
    top = scores.topk(min(count, scores.shape[-1]), -1)
    rows = zip(live, top.values.tolist(), top.indices.tolist(), steps, strict=True)
    extended: dict[int, list[_Beam]] = {beam.sentence: [] for beam in live}
    for row, (beam, values, tokens, step) in enumerate(rows):
        extended[beam.sentence] += [
            _Beam([*beam.tokens, t], [*beam.steps, step], beam.score + s, beam.sentence, row)
            for s, t in zip(values, tokens, strict=True)
        ]
    return {i: sorted(beams, key=lambda b: -b.score) for i, beams in extended.items()}
