"""The halting mechanisms of published implementations, as settings of the recurrence."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_SETTINGS = ("halted", "weighting", "halt_from", "forced_remainder", "cost")
_VALUES = {
    # arXiv 1807.03819, section 2.2.
    "paper": ("copied", "sum", "input", True, "steps+remainder"),
    # universal_transformer_util.py, the code printed in the paper's appendix.
    "tensor2tensor": ("running", "ema", "input", False, "steps+remainder"),
    # DGL's tutorial "Transformer as a Graph Neural Network"; its steps are pre-norm.
    "dgl_tutorial": ("stale", "sum", "output", True, "remainder"),
}

HALTING_PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        name: MappingProxyType(dict(zip(_SETTINGS, values, strict=True)))
        for name, values in _VALUES.items()
    }
)
"""Keyword arguments of `AdaptiveRecurrence`, by the source whose halting they name.

`AdaptiveRecurrence(step, unit, **HALTING_PRESETS["paper"])`; positions, attention and embeddings
stay graphut's own.
"""
