"""The settings of published implementations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from graphut.nn.rules import ACT

_PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    # arXiv 1807.03819, section 2.2.
    "paper": {
        "attention": {"bias": True},
        "step": {"norm": "post", "norm_eps": 1e-5},
        "halting": {"bias_init": -1.0, "norm": False},
        "recurrence": {
            "rule": ACT(),
            "halted": "copied",
            "position_signal": "sinusoidal",
            "step_signal": "sinusoidal",
        },
    },
    # universal_transformer_util.py, the code printed in the paper's appendix.
    "tensor2tensor": {
        "attention": {"bias": False},
        "step": {"norm": "pre", "norm_eps": 1e-6},
        "halting": {"bias_init": 1.0, "norm": False},
        "recurrence": {
            "rule": ACT(weighting="ema", forced_remainder=False),
            "halted": "running",
            "position_signal": "sinusoidal0",
            "step_signal": "learned",
        },
    },
    # DGL's tutorial "Transformer as a Graph Neural Network".
    "dgl_tutorial": {
        "attention": {"bias": True},
        "step": {"norm": "pre", "norm_eps": 1e-5},
        "halting": {"bias_init": 1.0, "norm": True},
        "recurrence": {
            "rule": ACT(halt_from="output", cost="remainder"),
            "halted": "stale",
            "position_signal": "sinusoidal0",
            "step_signal": "sinusoidal0",
        },
    },
}

HALTING_PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        name: MappingProxyType({part: MappingProxyType(own) for part, own in preset.items()})
        for name, preset in _PRESETS.items()
    }
)
"""Keyword arguments by the source that has these settings, and by the layer that takes them.

`preset["attention"]` is for `MultiHeadAttention`, `preset["step"]` for `UniversalTransformerStep`,
`preset["halting"]` for `HaltingUnit`, `preset["recurrence"]` for `AdaptiveRecurrence`;
`ModelConfig.preset` takes them all. These differences remain:

- tensor2tensor halts a node whose probabilities sum to more than the threshold, here as much is
  enough; its sinusoids are all sines, then all cosines, with exponents over `d / 2 - 1`; its cost
  counts padding.
- The tutorial has one mean cost over encoder and decoder, clamps scores to 10, uses one attention
  for self and cross, and drops features of a state at every step.
"""
