"""Universal Transformers for sequence pairs, texts, documents, passages and graphs."""

from typing import TYPE_CHECKING

from graphut._lazy import lazy_names

if TYPE_CHECKING:
    from graphut.models.classifier import UniversalTransformerClassifier
    from graphut.models.config import (
        Restarts,
        UniversalGraphTransformerConfig,
        UniversalTransformerClassifierConfig,
        UniversalTransformerConfig,
        UniversalTransformerLMConfig,
        UniversalTransformerPointerConfig,
    )
    from graphut.models.graph_transformer import UniversalGraphTransformer
    from graphut.models.language_model import UniversalTransformerLM
    from graphut.models.loading import load
    from graphut.models.pointer import UniversalTransformerPointer
    from graphut.models.universal_transformer import UniversalTransformer

__all__ = [
    "Restarts",
    "UniversalGraphTransformer",
    "UniversalGraphTransformerConfig",
    "UniversalTransformer",
    "UniversalTransformerClassifier",
    "UniversalTransformerClassifierConfig",
    "UniversalTransformerConfig",
    "UniversalTransformerLM",
    "UniversalTransformerLMConfig",
    "UniversalTransformerPointer",
    "UniversalTransformerPointerConfig",
    "load",
]

__getattr__, __dir__ = lazy_names(__name__)
