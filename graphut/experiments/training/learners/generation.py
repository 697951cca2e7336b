"""The options of a model that writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from graphut.experiments.tasks.base import in_batches
from graphut.models import UniversalTransformer, UniversalTransformerLM
from graphut.models.checked_config import option
from graphut.models.outputs import Generation

_AT_ONCE = 100  # outputs that are searched for together


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """How outputs are searched for, or drawn: greedily, unless something else is asked for.

    Examples
    --------
    >>> GenerationOptions(beam_size=4).for_model()["beam_size"]
    4
    """

    max_length: int = option(100, "tokens of an output at most, <eos> included")
    beam_size: int = option(1, "hypotheses that beam search keeps; 1 is greedy")
    length_penalty: float = option(0.6, "of beam search: more favours longer outputs")
    temperature: float | None = option(
        None, "draw tokens instead of taking the likeliest; below 1 sharpens"
    )
    top_p: float | None = option(
        None, "draw among the likeliest tokens that have this probability together"
    )
    seed: int = option(0, "of draws")

    def for_model(self) -> dict[str, Any]:
        """The options of `model.generate`."""
        options = asdict(self)
        generator = torch.Generator().manual_seed(options.pop("seed"))
        return {**options, "generator": generator}


def generate(
    model: UniversalTransformer | UniversalTransformerLM,
    prompts: Sequence[list[int]],
    options: GenerationOptions,
) -> Iterator[tuple[list[int], Generation]]:
    """Each prompt and what a model makes of it, as soon as its batch is done."""
    searched = options.for_model()
    for batch in in_batches(prompts, _AT_ONCE):
        yield from zip(batch, model.generate(batch, **searched), strict=True)
