"""The configuration of the pointer model."""

from __future__ import annotations

from dataclasses import dataclass

from graphut.models.config.encoder_model import EncoderConfig


@dataclass(frozen=True, kw_only=True)
class UniversalTransformerPointerConfig(EncoderConfig):
    """The configuration of a `UniversalTransformerPointer`."""
