"""The halting mechanisms of published implementations, as settings of the recurrence."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from graphut.nn.rules import ACT

_T2T = ACT(weighting="ema", forced_remainder=False)
_DGL = ACT(halt_from="output", cost="remainder")

HALTING_PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "paper": MappingProxyType({"halted": "copied", "rule": ACT()}),
        "tensor2tensor": MappingProxyType({"halted": "running", "rule": _T2T}),
        "dgl_tutorial": MappingProxyType({"halted": "stale", "rule": _DGL}),
    }
)
"""Keyword arguments of `AdaptiveRecurrence`, by the source whose halting they name.

`AdaptiveRecurrence(step, unit, **HALTING_PRESETS["paper"])`, with a unit from
`HALTING_UNIT_PRESETS`. Sources: arXiv 1807.03819, section 2.2; universal_transformer_util.py, the
code printed in the paper's appendix; DGL's tutorial "Transformer as a Graph Neural Network".
Positions, attention and embeddings stay graphut's own. What differs is also this:

- tensor2tensor halts at a sum above the threshold, not at the threshold itself; its cost counts
  padding.
- The tutorial's cost is one mean over the nodes of encoder and decoder together, here each
  recurrence has its own; its scores are clamped to 10 before the exponential; its decoder has one
  attention module for self- and cross-attention.
- Both have pre-norm steps, count steps and positions from 0, and tensor2tensor's attention has no
  biases and its LayerNorm an `eps` of 1e-6.
"""

HALTING_UNIT_PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "paper": MappingProxyType({"bias_init": -1.0, "norm": False}),
        "tensor2tensor": MappingProxyType({"bias_init": 1.0, "norm": False}),
        "dgl_tutorial": MappingProxyType({"bias_init": 1.0, "norm": True}),
    }
)
"""Keyword arguments of `HaltingUnit`, by the source."""
