"""Configurations of the models, which do not import torch."""

from graphut.models.config.base import ModelConfig, upgrade_fields
from graphut.models.config.generative_model import (
    UniversalTransformerConfig,
    UniversalTransformerLMConfig,
)
from graphut.models.config.graph_transformer import Restarts, UniversalGraphTransformerConfig

__all__ = [
    "ModelConfig",
    "Restarts",
    "UniversalGraphTransformerConfig",
    "UniversalTransformerConfig",
    "UniversalTransformerLMConfig",
    "upgrade_fields",
]
