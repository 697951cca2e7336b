"""Beam search over the hypotheses of a decoder."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphut.models.decoding.decoder import TokenDecoder
from graphut.models.decoding.search import Hypothesis, SearchOptions, exclude
from graphut.sentences import EOS


@dataclass(frozen=True)
class _Beam:
    """A live hypothesis and its row in the decoder's last batch."""

    row: int
    score: float = 0.0
    tokens: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


def beam_search(
    decoder: TokenDecoder, first: Tensor, options: SearchOptions, *, never: int | None = None
) -> list[Hypothesis]:
    r"""Return the best finished hypothesis of each sentence.

    Hypotheses are ranked by their log-probability over
    :math:`((5 + length) / 6)^{penalty}` (arXiv 1609.08144, Eq. 14), and one that reaches
    `max_length` counts as finished. Sentences do not influence each other.

    Parameters
    ----------
    decoder, first, options, never
        As for `sample`; the options are `max_length`, `beam_size` and `length_penalty`.
    """
    max_length, penalty = options.max_length, options.length_penalty
    live = [[_Beam(sentence)] for sentence in range(len(first))]
    best: list[tuple[float, _Beam] | None] = [None] * len(first)
    parents, tokens = torch.arange(len(first)), first
    for length in range(1, max_length + 1):
        logits, steps = decoder.advance(parents, tokens)
        likeliest = _likeliest_extensions(logits, options.beam_size + 1, never)
        step_of_row = steps.tolist()
        row = 0
        for sentence, beams in enumerate(live):
            here = [replace(beam, row=row + i) for i, beam in enumerate(beams)]
            row += len(beams)
            extended = _extend(here, likeliest, step_of_row)
            ended = [b for b in extended if b.tokens[-1] == EOS or length == max_length]
            best[sentence] = _best(best[sentence], ended, penalty)
            going = [b for b in extended if b.tokens[-1] != EOS][: options.beam_size]
            live[sentence] = _promising(going, best[sentence], max_length, penalty)
        flat = [beam for beams in live for beam in beams]
        if not flat or length == max_length:
            break
        parents = torch.tensor([beam.row for beam in flat])
        tokens = torch.tensor([beam.tokens[-1] for beam in flat], device=first.device)
    return [_finished(winner) for winner in best]


def _likeliest_extensions(
    logits: Tensor, count: int, never: int | None
) -> tuple[list[list[float]], list[list[int]]]:
    # One more than the beam: whatever else is chosen, eos may be among them.
    scores = exclude(logits.double().log_softmax(-1), never)
    top = scores.topk(min(count, logits.shape[-1]), -1)
    return top.values.tolist(), top.indices.tolist()


def _extend(
    beams: list[_Beam], likeliest: tuple[list[list[float]], list[list[int]]], steps: list[int]
) -> list[_Beam]:
    """Return all extensions of a sentence's beams, the likeliest first."""
    extended = [
        _Beam(beam.row, beam.score + score, (*beam.tokens, token), (*beam.steps, steps[beam.row]))
        for beam in beams
        for score, token in zip(likeliest[0][beam.row], likeliest[1][beam.row], strict=True)
    ]
    return sorted(extended, key=lambda beam: -beam.score)


def _normalised(score: float, length: int, penalty: float) -> float:
    divisor: float = ((5 + length) / 6) ** penalty
    return score / divisor


def _best(
    best: tuple[float, _Beam] | None, ended: list[_Beam], penalty: float
) -> tuple[float, _Beam] | None:
    ranked = [(_normalised(beam.score, len(beam.tokens), penalty), beam) for beam in ended]
    return max([*ranked, *([best] if best else [])], key=lambda pair: pair[0], default=None)


def _promising(
    going: list[_Beam], best: tuple[float, _Beam] | None, max_length: int, penalty: float
) -> list[_Beam]:
    """Return the beams that could still win: scores only fall, and count least at the end."""
    if best is None:
        return going
    return [beam for beam in going if _normalised(beam.score, max_length, penalty) > best[0]]


def _finished(winner: tuple[float, _Beam] | None) -> Hypothesis:
    assert winner is not None  # at max_length every hypothesis is finished
    return Hypothesis(list(winner[1].tokens), list(winner[1].steps), winner[1].score)
