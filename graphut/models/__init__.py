"""Models: from sequence to sequence, of language, of classes, and of places in a passage."""

from graphut.models.classifier import Classification, UniversalTransformerClassifier
from graphut.models.config import (
    UniversalTransformerClassifierConfig,
    UniversalTransformerConfig,
    UniversalTransformerLMConfig,
    UniversalTransformerPointerConfig,
)
from graphut.models.decoding import Generation
from graphut.models.language_model import UniversalTransformerLM
from graphut.models.output import ClassifierOutput, LMOutput, PointerOutput, SequenceOutput
from graphut.models.pointer import Pointing, UniversalTransformerPointer
from graphut.models.universal_transformer import UniversalTransformer

__all__ = [
    "Classification",
    "ClassifierOutput",
    "Generation",
    "LMOutput",
    "PointerOutput",
    "Pointing",
    "SequenceOutput",
    "UniversalTransformer",
    "UniversalTransformerClassifier",
    "UniversalTransformerClassifierConfig",
    "UniversalTransformerConfig",
    "UniversalTransformerLM",
    "UniversalTransformerLMConfig",
    "UniversalTransformerPointer",
    "UniversalTransformerPointerConfig",
]
