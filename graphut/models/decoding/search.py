"""From the options of `generate` to the search they ask for."""

from __future__ import annotations

from typing import Any

import torch

from graphut.models.decoding.beam import beam_search
from graphut.models.decoding.generation import TokenDecoder
from graphut.models.decoding.stepwise import Hypothesis, greedy, sample


def search(
    decoder: TokenDecoder,
    sentences: int,
    *,
    beam_size: int,
    length_penalty: float,
    temperature: float | None,
    top_p: float | None,
    generator: torch.Generator | None,
    **ends: Any,
) -> list[Hypothesis]:
    """The hypothesis of each sentence: by sampling, by beam search, or greedily.

    Parameters
    ----------
    decoder : TokenDecoder
        What is asked for tokens.
    sentences : int
        How many.
    beam_size, length_penalty, temperature, top_p, generator
        As `UniversalTransformer.generate` takes them, checked by `check_search`.
    **ends
        `max_length`, `bos`, `eos`, `never` and `device`, for whichever search it is.
    """
    if temperature is not None or top_p is not None:
        return sample(
            decoder,
            sentences,
            temperature=1.0 if temperature is None else temperature,
            top_p=1.0 if top_p is None else top_p,
            generator=generator,
            **ends,
        )
    if beam_size > 1:
        return beam_search(
            decoder, sentences, beam_size=beam_size, length_penalty=length_penalty, **ends
        )
    return greedy(decoder, sentences, **ends)
