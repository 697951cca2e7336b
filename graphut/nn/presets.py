"""The halting mechanisms of published implementations, as settings of the recurrence."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

HALTING_PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        # arXiv 1807.03819, section 2.2.
        "paper": MappingProxyType(
            {
                "halted": "copied",
                "weighting": "sum",
                "halt_from": "input",
                "forced_remainder": True,
                "cost": "steps+remainder",
            }
        ),
        # universal_transformer_util.py, the code printed in the paper's appendix.
        "tensor2tensor": MappingProxyType(
            {
                "halted": "running",
                "weighting": "ema",
                "halt_from": "input",
                "forced_remainder": False,
                "cost": "steps+remainder",
            }
        ),
        # DGL's tutorial "Transformer as a Graph Neural Network"; its steps are pre-norm.
        "dgl_tutorial": MappingProxyType(
            {
                "halted": "stale",
                "weighting": "sum",
                "halt_from": "output",
                "forced_remainder": True,
                "cost": "remainder",
            }
        ),
    }
)
"""Keyword arguments of `AdaptiveRecurrence`, by the source whose halting they name.

`AdaptiveRecurrence(step, unit, **HALTING_PRESETS["paper"])`; positions, attention and embeddings
stay graphut's own.
"""
