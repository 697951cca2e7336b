"""The configuration of the language model."""

from __future__ import annotations

from dataclasses import MISSING, dataclass

from graphut.models.checked_config import option
from graphut.models.config.base import ModelConfig


@dataclass(frozen=True, kw_only=True)
class UniversalTransformerLMConfig(ModelConfig):
    """The configuration of a `UniversalTransformerLM`."""

    vocab_size: int = option(MISSING, "size of the vocabulary", least=3)
    tie_output: bool = option(True, "use the embedding as output projection")
    topology: str = option("causal", "tokens that a token attends to")

    decodes = True

    def _check_values(self) -> None:
        super()._check_values()
        self._check_extra_nodes(self._check_causal("topology"))
