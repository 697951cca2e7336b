"""Greedy decoding and sampling: one hypothesis a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from graphut.models.decoding.generation import TokenDecoder, allowed

Choose = Callable[[Tensor], Tensor]


@dataclass
class Hypothesis:
    """A sequence in the making: tokens without `bos`, `eos` if it came."""

    tokens: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    score: float = 0.0


def greedy(
    decoder: TokenDecoder,
    sentences: int,
    *,
    max_length: int,
    bos: int | Tensor,
    eos: int,
    device: torch.device,
    never: int | None = None,
) -> list[Hypothesis]:
    """The likeliest token, again and again; one hypothesis a sentence.

    Parameters
    ----------
    bos : int or Tensor
        The token that begins every sentence, or `(sentences,)`, the one that begins each.
    never : int, optional
        A token that is not taken, whatever its probability is.
    """
    return _decode(decoder, _likeliest, sentences, max_length, bos, eos, device, never)


def sample(
    decoder: TokenDecoder,
    sentences: int,
    *,
    max_length: int,
    bos: int | Tensor,
    eos: int,
    device: torch.device,
    never: int | None = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> list[Hypothesis]:
    """Tokens drawn from the model's distribution.

    Parameters
    ----------
    temperature : float
        Divides the logits: below 1 sharpens.
    top_p : float
        Draw among the likeliest tokens that have this share of the probability between them
        (nucleus sampling, arXiv 1904.09751).
    generator : torch.Generator, optional
        On the CPU; torch's own if not given.
    """

    def draw(logits: Tensor) -> Tensor:
        # From the largest down, and in float64, so that a tiny temperature does not overflow.
        below = logits.double() - logits.double().amax(-1, keepdim=True)
        probability = nucleus((below / temperature).softmax(-1), top_p).cpu()
        return torch.multinomial(probability, 1, generator=generator)[:, 0].to(logits.device)

    return _decode(decoder, draw, sentences, max_length, bos, eos, device, never)


def nucleus(probability: Tensor, top_p: float) -> Tensor:
    """Zero all but the likeliest tokens that together reach `top_p`.

    Examples
    --------
    >>> nucleus(torch.tensor([[0.5, 0.1, 0.4]]), 0.6)
    tensor([[0.5000, 0.0000, 0.4000]])
    """
    ordered, token = probability.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    kept = torch.where(before < top_p, ordered, 0.0)
    return torch.zeros_like(probability).scatter(-1, token, kept)


def _likeliest(logits: Tensor) -> Tensor:
    return logits.argmax(-1)


def _decode(
    decoder: TokenDecoder,
    choose: Choose,
    sentences: int,
    max_length: int,
    bos: int | Tensor,
    eos: int,
    device: torch.device,
    never: int | None,
) -> list[Hypothesis]:
    found = [Hypothesis() for _ in range(sentences)]
    going = list(range(sentences))
    parents = torch.arange(sentences)
    tokens = torch.as_tensor(bos, device=device).expand(sentences)
    for _ in range(max_length):
        logits, steps = decoder.advance(parents, tokens)
        tokens = choose(allowed(logits, never))
        scores = logits.double().log_softmax(-1).gather(1, tokens[:, None])[:, 0]
        columns = zip(going, tokens.tolist(), steps.tolist(), scores.tolist(), strict=True)
        for sentence, token, count, score in columns:
            found[sentence].tokens.append(token)
            found[sentence].steps.append(count)
            found[sentence].score += score
        parents = (tokens != eos).nonzero()[:, 0].cpu()
        if not parents.numel():
            break
        going = [going[parent] for parent in parents.tolist()]
        tokens = tokens[parents.to(device)]
    return found
