"""Beam search over the hypotheses of a decoder."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphut.models.decoding.generation import TokenDecoder, allowed
from graphut.models.decoding.stepwise import Hypothesis


@dataclass(frozen=True)
class _Beam:
    """A live hypothesis and its row in the decoder's last batch."""

    row: int
    score: float = 0.0
    tokens: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


def beam_search(
    decoder: TokenDecoder,
    sentences: int,
    *,
    beam_size: int,
    max_length: int,
    length_penalty: float,
    bos: int | Tensor,
    eos: int,
    device: torch.device,
    never: int | None = None,
) -> list[Hypothesis]:
    r"""The best finished hypothesis of each sentence.

    Hypotheses are ranked by their log-probability over
    :math:`((5 + length) / 6)^{penalty}` (arXiv 1609.08144, Eq. 14), and one that reaches
    `max_length` counts as finished. Sentences do not influence each other.

    Parameters
    ----------
    beam_size : int
        Live hypotheses a sentence.
    max_length : int
        Generated tokens at most, `eos` included.
    length_penalty : float
        0 or more: 0 ranks by log-probability alone, more favours longer sequences.
    bos : int or Tensor
        The token that begins every sentence, or `(sentences,)`, the one that begins each.
    never : int, optional
        A token that is not taken, whatever its probability is.
    """
    live = [[_Beam(sentence)] for sentence in range(sentences)]
    best: list[tuple[float, _Beam] | None] = [None] * sentences
    parents = torch.arange(sentences)
    tokens = torch.as_tensor(bos, device=device).expand(sentences)
    for length in range(1, max_length + 1):
        logits, steps = decoder.advance(parents, tokens)
        likeliest = _likeliest_extensions(logits, beam_size + 1, never)
        step_of_row = steps.tolist()
        row = 0
        for sentence, beams in enumerate(live):
            here = [replace(beam, row=row + i) for i, beam in enumerate(beams)]
            row += len(beams)
            extended = _extend(here, likeliest, step_of_row)
            ended = [b for b in extended if b.tokens[-1] == eos or length == max_length]
            best[sentence] = _best(best[sentence], ended, length_penalty)
            going = [b for b in extended if b.tokens[-1] != eos][:beam_size]
            live[sentence] = _promising(going, best[sentence], max_length, length_penalty)
        flat = [beam for beams in live for beam in beams]
        if not flat or length == max_length:
            break
        parents = torch.tensor([beam.row for beam in flat])
        tokens = torch.tensor([beam.tokens[-1] for beam in flat], device=device)
    return [_finished(winner) for winner in best]


def _likeliest_extensions(
    logits: Tensor, count: int, never: int | None
) -> tuple[list[list[float]], list[list[int]]]:
    # One more than the beam: whatever else is chosen, eos may be among them.
    scores = allowed(logits.double().log_softmax(-1), never)
    top = scores.topk(min(count, logits.shape[-1]), -1)
    return top.values.tolist(), top.indices.tolist()


def _extend(
    beams: list[_Beam], likeliest: tuple[list[list[float]], list[list[int]]], steps: list[int]
) -> list[_Beam]:
    """All extensions of a sentence's beams, the likeliest first."""
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
    """Those that could still beat the best: a score only falls, and counts least at the end."""
    if best is None:
        return going
    return [beam for beam in going if _normalised(beam.score, max_length, penalty) > best[0]]


def _finished(winner: tuple[float, _Beam] | None) -> Hypothesis:
    assert winner is not None  # at max_length every hypothesis is finished
    return Hypothesis(list(winner[1].tokens), list(winner[1].steps), winner[1].score)
