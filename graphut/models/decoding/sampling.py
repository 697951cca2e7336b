"""Greedy decoding and sampling: one hypothesis a sentence."""

from __future__ import annotations

import torch
from torch import Tensor

from graphut.models.decoding.decoder import TokenDecoder
from graphut.models.decoding.search import Hypothesis, SearchOptions, exclude
from graphut.sentences import EOS


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
