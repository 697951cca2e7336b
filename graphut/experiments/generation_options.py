"""The options of models that generate text. Parsing them does not import torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

EVALUATION_OPTIONS = ("beam_size", "length_penalty")
"""The options that also apply when a model is evaluated."""


def _option(default: Any, help: str) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """The options of a model that does not generate text."""


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """The options of a model that generates text; greedy decoding is the default."""

    max_length: int = _option(100, "maximum number of generated tokens, including <eos>")
    beam_size: int = _option(1, "number of hypotheses of beam search; 1 is greedy decoding")
    length_penalty: float = _option(0.6, "of beam search; larger values favour longer outputs")
    temperature: float | None = _option(
        None, "sample tokens instead of taking the most likely; below 1 sharpens the distribution"
    )
    top_p: float | None = _option(
        None, "sample from the most likely tokens that together have this probability"
    )
    seed: int = _option(0, "seed of sampling")

    def for_model(self) -> dict[str, Any]:
        """Return the keyword arguments of `model.generate`."""
        from torch import Generator

        options = asdict(self)
        generator = Generator().manual_seed(options.pop("seed"))
        return {**options, "generator": generator}
