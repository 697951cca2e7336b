"""Models: sequence to sequence."""

from graphut.models.config import UniversalTransformerConfig
from graphut.models.output import SequenceOutput
from graphut.models.universal_transformer import UniversalTransformer

__all__ = ["SequenceOutput", "UniversalTransformer", "UniversalTransformerConfig"]
