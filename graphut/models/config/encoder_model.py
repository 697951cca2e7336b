"""The configuration of models with only an encoder."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Literal

from graphut.models.checked_config import option
from graphut.models.config.base import ModelConfig
from graphut.topology import parse


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(ModelConfig):
    """A base class of configurations for models with only an encoder."""

    vocab_size: int = option(MISSING, "size of the vocabulary", least=3)
    topology: str = option("complete", "nodes that a node attends to")
    positions: Literal["start", "end", "fixed"] = option(
        "start", "count from the start, or from the end; fixed: the last position is max_length"
    )

    def _check_values(self) -> None:
        super()._check_values()
        self._check_defaults(self.positions != "fixed", "if positions is 'fixed'", "max_offset")
        self._check_extra_nodes(self._parsed("topology", parse))
