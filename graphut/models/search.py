"""Greedy decoding, sampling and beam search with a `TokenDecoder`."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
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
    `options` has a `temperature`, which divides the logits.
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
    if options.temperature is None:
        return logits.argmax(-1)
    # Subtract the maximum first, in float64: a tiny temperature must not overflow.
    below = logits.double() - logits.double().amax(-1, keepdim=True)
    probability = (below / options.temperature).softmax(-1)
    drawn = torch.multinomial(probability.cpu(), 1, generator=options.generator)[:, 0]
    return drawn.to(logits.device)


class _Ended(NamedTuple):
    """A finished hypothesis: its length, and its last token after row `row`."""

    length: int
    row: int  # among the hypotheses of the decoder when the last token was predicted
    token: int
    score: float


def beam_search(decoder: TokenDecoder, first: Tensor, options: SearchOptions) -> list[Hypothesis]:
    r"""Return the best finished hypothesis of each sentence; arguments are as for `sample`.

    Hypotheses are ranked by their log-probability divided by
    :math:`((5 + length) / 6)^{penalty}` (arXiv 1609.08144, Eq. 14). A hypothesis of `max_length`
    tokens counts as finished. The result for a sentence does not depend on the other sentences.
    """
    max_length, width, penalty = options.max_length, options.beam_size, options.length_penalty
    best: list[_Ended | None] = [None] * len(first)
    best_rank = np.full(len(first), np.nan)  # no rank is below NaN
    # Of each hypothesis of the decoder: its sentence and its log-probability.
    sentence, score = np.arange(len(first)), np.zeros(len(first))
    parents, tokens = torch.arange(len(first)), first
    history: list[tuple[list[int], ...]] = []  # parents, last tokens and their steps
    for length in range(1, max_length + 1):
        logits, steps = decoder.advance(parents, tokens)
        history.append((parents.tolist(), tokens.tolist(), steps.tolist()))
        scores = _without_bos(logits.double().log_softmax(-1))
        # One more than the beam size, because one of them may be `eos`.
        top = scores.topk(min(width + 1, scores.shape[-1]), -1)
        total = (score[:, None] + top.values.cpu().numpy()).ravel()
        row, token = np.arange(len(score)).repeat(top.values.shape[1]), top.indices.cpu().numpy()
        order = np.lexsort((-total, sentence[row]))
        row, total, token = row[order], total[order], token.ravel()[order]
        owner, ends = sentence[row], token == EOS
        is_last = length == max_length
        seen = -1
        for index in (np.arange(len(row)) if is_last else ends.nonzero()[0]).tolist():
            if owner[index] == seen:
                continue  # only the likeliest of those that end now can be the best
            seen, rank = owner[index], _rank(total[index], length, penalty)
            if not rank < best_rank[seen]:
                best_rank[seen] = rank
                best[seen] = _Ended(length, row[index], token[index], total[index])
        active = (~ends).nonzero()[0]
        place = np.arange(len(active)) - np.searchsorted(owner[active], owner[active])
        active = active[place < width]
        # Drop hypotheses that cannot win: scores only fall.
        loses = _rank(total[active], max_length, penalty) <= best_rank[owner[active]]
        active = active[~loses]
        if is_last or not len(active):
            break
        sentence, score = owner[active], total[active]
        parents = torch.from_numpy(row[active])
        tokens = torch.from_numpy(token[active]).to(first.device)
    return [_trace(history, each) for each in best if each]  # no None: all end at `max_length`


def _rank(score: Any, length: int, penalty: float) -> Any:
    """Return the rank of hypotheses of `length` tokens by their scores; larger is better."""
    with np.errstate(divide="ignore"):  # a score of 0 has an infinite rank
        return penalty * math.log((5 + length) / 6) - np.log(-score)


def _trace(history: list[tuple[list[int], ...]], ended: _Ended) -> Hypothesis:
    """Return a finished hypothesis with all its tokens and steps."""
    tokens, steps, row = [int(ended.token)], [], int(ended.row)
    for parents, inputs, counts in history[ended.length - 1 :: -1]:
        steps.append(counts[row])
        tokens.append(inputs[row])
        row = parents[row]
    return Hypothesis(tokens[-2::-1], steps[::-1], float(ended.score))  # without the first input
