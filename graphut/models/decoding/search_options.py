"""The options of a search, whose checks do not import torch."""

from dataclasses import dataclass
from typing import Any

from graphut.models.checked_config import CheckedConfig, option


@dataclass(frozen=True, kw_only=True)
class SearchOptions(CheckedConfig):
    """The options of a search; see `GenerativeModel.generate`."""

    max_length: int = option(100, "largest number of generated tokens, <eos> included", least=1)
    beam_size: int = option(1, "hypotheses that beam search keeps; 1 is greedy decoding", least=1)
    length_penalty: float = option(
        0.6, "length penalty of beam search; larger values favour long outputs", least=0
    )
    temperature: float | None = option(
        None, "sample tokens at this temperature, instead of taking the likeliest token"
    )
    top_p: float | None = option(
        None, "sample only from the likeliest tokens, up to this cumulative probability"
    )
    generator: Any = None  # a `torch.Generator`, for sampling

    def _check_values(self) -> None:
        positive = self.temperature is None or self.temperature > 0
        self._check("temperature", positive, "positive; omit it for greedy decoding")
        self._check("top_p", self.top_p is None or 0 < self.top_p <= 1, "in (0, 1]")
        fits = self.beam_size == 1 or not self.samples
        self._check("beam_size", fits, "1 with sampling (temperature, top_p)")

    @property
    def samples(self) -> bool:
        """True if tokens are sampled: `temperature` or `top_p` is given."""
        return self.temperature is not None or self.top_p is not None
