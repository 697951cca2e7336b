"""Models: sequence to sequence, language model, classifier, pointer; results in `outputs`."""

from graphut.models.classifier import UniversalTransformerClassifier
from graphut.models.config import (
    UniversalTransformerClassifierConfig,
    UniversalTransformerConfig,
    UniversalTransformerLMConfig,
    UniversalTransformerPointerConfig,
)
from graphut.models.language_model import UniversalTransformerLM
from graphut.models.pointer import UniversalTransformerPointer
from graphut.models.universal_transformer import UniversalTransformer

__all__ = [
    "UniversalTransformer",
    "UniversalTransformerClassifier",
    "UniversalTransformerClassifierConfig",
    "UniversalTransformerConfig",
    "UniversalTransformerLM",
    "UniversalTransformerLMConfig",
    "UniversalTransformerPointer",
    "UniversalTransformerPointerConfig",
]
