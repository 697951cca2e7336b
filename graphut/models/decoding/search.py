"""Greedy decoding and sampling, and what they share with beam search."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from graphut.models.decoding.decoder import TokenDecoder
from graphut.sentences import EOS


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search, as `GenerativeModel.generate` explains them.

    Raises
    ------
    ValueError
        If an option is out of range; the message quotes it.
    """

    max_length: int = 100
    beam_size: int = 1
    length_penalty: float = 0.6
    temperature: float | None = None
    top_p: float | None = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` if an option is out of range."""
        max_length, beam_size, penalty = self.max_length, self.beam_size, self.length_penalty
        temperature, top_p = self.temperature, self.top_p
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {max_length}")
        if beam_size < 1:
            raise ValueError(f"beam_size must be at least 1, got {beam_size}")
        if not 0 <= penalty < math.inf:
            raise ValueError(f"length_penalty must be 0 or more, got {penalty}")
        if temperature is not None and not temperature > 0:
            raise ValueError(
                f"temperature must be above 0, got {temperature}; leave it out for greedy"
            )
        if top_p is not None and not 0 < top_p <= 1:
            raise ValueError(f"top_p must lie in (0, 1], got {top_p}")
        if beam_size > 1 and self.samples:
            raise ValueError(
                f"beam_size={beam_size} and sampling (temperature, top_p) exclude each other; "
                "give one of them"
            )

    @property
    def samples(self) -> bool:
        """True if tokens are drawn from the model's distribution."""
        return self.temperature is not None or self.top_p is not None


@dataclass
class Hypothesis:
    """A sequence in the making: tokens without `bos`, but with `eos` if it came."""

    tokens: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    score: float = 0.0


def exclude(scores: Tensor, never: int | None) -> Tensor:
    """Set the scores of one token, if any, to minus infinity, in `(B, vocabulary)` scores."""
    if never is None:
        return scores
    return scores.index_fill(-1, torch.tensor(never, device=scores.device), -torch.inf)


def sample(
    decoder: TokenDecoder, first: Tensor, options: SearchOptions, *, never: int | None = None
) -> list[Hypothesis]:
    """Draw tokens from the model's distribution, or take the likeliest ones (greedy).

    Parameters
    ----------
    decoder : TokenDecoder
        Extends the hypotheses.
    first : Tensor
        `(sentences,)` int64, the token that begins each sentence.
    options : SearchOptions
        Greedy without a `temperature` and `top_p`. The logits are divided by `temperature`; of
        the tokens only the likeliest are drawn, which have the share `top_p` of the probability
        between them (nucleus sampling, arXiv 1904.09751).
    never : int, optional
        A token that is not taken, whatever its probability is.

    Returns
    -------
    list of Hypothesis
        One for each sentence.
    """
    found = [Hypothesis() for _ in range(len(first))]
    active = list(range(len(first)))
    parents, tokens = torch.arange(len(first)), first
    for _ in range(options.max_length):
        logits, steps = decoder.advance(parents, tokens)
        tokens = _choose(exclude(logits, never), options)
        scores = logits.double().log_softmax(-1).gather(1, tokens[:, None])[:, 0]
        columns = zip(active, tokens.tolist(), steps.tolist(), scores.tolist(), strict=True)
        for sentence, token, count, score in columns:
            found[sentence].tokens.append(token)
            found[sentence].steps.append(count)
            found[sentence].score += score
        parents = (tokens != EOS).nonzero()[:, 0].cpu()
        if not parents.numel():
            break
        active = [active[parent] for parent in parents.tolist()]
        tokens = tokens[parents.to(tokens.device)]
    return found


def _choose(logits: Tensor, options: SearchOptions) -> Tensor:
    if not options.samples:
        return logits.argmax(-1)
    temperature = 1.0 if options.temperature is None else options.temperature
    # From the largest down, and in float64, so that a tiny temperature does not overflow.
    below = logits.double() - logits.double().amax(-1, keepdim=True)
    probability = (below / temperature).softmax(-1)
    if options.top_p is not None:
        probability = nucleus(probability, options.top_p)
    drawn = torch.multinomial(probability.cpu(), 1, generator=options.generator)[:, 0]
    return drawn.to(logits.device)


def nucleus(probability: Tensor, top_p: float) -> Tensor:
    """Zero all but the likeliest tokens that together reach `top_p`."""
    ordered, token = probability.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    kept = torch.where(before < top_p, ordered, 0.0)
    return torch.zeros_like(probability).scatter(-1, token, kept)
