"""A language model with few weights."""

from __future__ import annotations

from typing import Any

import torch

from graphut.models import UniversalTransformerLM, UniversalTransformerLMConfig


def make_language_model(**options: Any) -> UniversalTransformerLM:
    torch.manual_seed(1)
    shape = {"vocab_size": 8, "d_model": 16, "num_heads": 2, "d_hidden": 16, "max_steps": 5}
    model = UniversalTransformerLM(UniversalTransformerLMConfig(**{**shape, **options})).double()
    for parameter in model.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    return model
