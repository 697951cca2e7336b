"""Settings of attention, steps and halting in the paper, tensor2tensor and DGL's tutorial."""

from collections.abc import Mapping
from typing import Any

from graphut.nn.rules import ACT

HALTING_PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
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
    "dgl_tutorial": {
        "attention": {"bias": False},
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
"""Keyword arguments for the layers, by source.

- `"paper"`: arXiv 1807.03819, section 2.2; the defaults of the layers.
- `"tensor2tensor"`: `universal_transformer_util.py`, also printed in the appendix of the paper.
- `"dgl_tutorial"`: the code of DGL's tutorial "Transformer as a Graph Neural Network",
  `examples/pytorch/transformer` of DGL v1.1.3. The text of the tutorial differs: its attention has
  biases and clamps scores to [-5, 5].

`preset["attention"]` is for `MultiHeadAttention`, `preset["step"]` for `UniversalTransformerStep`,
`preset["halting"]` for `HaltingUnit` and `preset["recurrence"]` for `AdaptiveRecurrence`.
`ModelConfig.preset` applies all of them to a model. These differences from the sources remain:

- tensor2tensor halts a node when the sum of its probabilities exceeds the threshold; here a sum
  equal to the threshold is enough. Its sinusoids are all sines, then all cosines, with exponents
  over `d / 2 - 1`. Its cost includes padding.
- DGL's example has one mean cost over encoder and decoder nodes, clamps scaled scores to
  [-10, 10], uses one attention module for self-attention and cross-attention, and applies dropout
  to the state at every step.
"""
