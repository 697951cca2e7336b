"""Configurations of the models, which do not import torch."""

from graphut.models.config.base import ModelConfig, upgrade_fields
from graphut.models.config.encoder_model import (
    EncoderConfig,
    UniversalTransformerClassifierConfig,
    UniversalTransformerPointerConfig,
)
from graphut.models.config.graph_transformer import UniversalGraphTransformerConfig
from graphut.models.config.language_model import UniversalTransformerLMConfig
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
