"""Configurations of the models: one file per model, none of which imports torch."""

from graphut.models.config.base import ModelConfig, upgrade_fields
from graphut.models.config.classifier import UniversalTransformerClassifierConfig
from graphut.models.config.encoder_model import EncoderConfig
from graphut.models.config.graph_transformer import UniversalGraphTransformerConfig
from graphut.models.config.language_model import UniversalTransformerLMConfig
from graphut.models.config.pointer import UniversalTransformerPointerConfig
from graphut.models.config.universal_transformer import UniversalTransformerConfig

__all__ = [
    "EncoderConfig",
    "ModelConfig",
    "UniversalGraphTransformerConfig",
    "UniversalTransformerClassifierConfig",
    "UniversalTransformerConfig",
    "UniversalTransformerLMConfig",
    "UniversalTransformerPointerConfig",
    "upgrade_fields",
]
