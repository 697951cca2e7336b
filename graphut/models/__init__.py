"""Universal Transformers for sequence pairs, texts and graphs."""

from typing import TYPE_CHECKING

from graphut._lazy import lazy_names

if TYPE_CHECKING:
    from graphut.models.config import (
        UniversalGraphTransformerConfig,
        UniversalTransformerConfig,
        UniversalTransformerLMConfig,
    )
    from graphut.models.graph_transformer import UniversalGraphTransformer
    from graphut.models.language_model import UniversalTransformerLM
    from graphut.models.loading import load
    from graphut.models.universal_transformer import UniversalTransformer

__all__ = [
    "UniversalGraphTransformer",
    "UniversalGraphTransformerConfig",
    "UniversalTransformer",
    "UniversalTransformerConfig",
    "UniversalTransformerLM",
    "UniversalTransformerLMConfig",
    "load",
]

__getattr__, __dir__ = lazy_names(__name__)
