"""The options of a search, whose checks do not import torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from graphut.models.checked_config import option


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search; see `GenerativeModel.generate`."""

    max_length: int = option(100, "largest number of generated tokens, <eos> included")
    beam_size: int = option(1, "hypotheses that beam search keeps; 1 is greedy decoding")
    length_penalty: float = option(
        0.6, "length penalty of beam search; larger values favour long outputs"
    )
    temperature: float | None = option(
        None, "sample tokens at this temperature, instead of taking the likeliest token"
    )
    top_p: float | None = option(
        None, "sample only from the likeliest tokens, up to this cumulative probability"
    )
    generator: Any = None  # a `torch.Generator`, for sampling

    def __post_init__(self) -> None:
        """Raise `ValueError` if an option is out of range."""
        temperature, top_p = self.temperature, self.top_p
        for name in ("max_length", "beam_size"):
            value = getattr(self, name)
            self._check(
                name, isinstance(value, Integral) and int(value) >= 1, "be an integer from 1"
            )
        self._check("length_penalty", 0 <= self.length_penalty < math.inf, "be 0 or more")
        fits = temperature is None or 0 < temperature < math.inf
        self._check("temperature", fits, "be finite and positive", "; omit it for greedy decoding")
        self._check("top_p", top_p is None or 0 < top_p <= 1, "lie in (0, 1]")
        if self.beam_size > 1 and self.samples:
            raise ValueError(
                f"beam_size={self.beam_size} cannot be combined with sampling (temperature, top_p)"
            )

    def _check(self, name: str, is_valid: bool, must: str, hint: str = "") -> None:
        if not is_valid:
            raise ValueError(f"{name} must {must}, got {getattr(self, name)}{hint}")

    @property
    def samples(self) -> bool:
        """True if tokens are sampled: `temperature` or `top_p` is given."""
        return self.temperature is not None or self.top_p is not None
