"""The settings of published implementations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_MODES = ("halted", "weighting", "halt_from", "forced_remainder", "cost")
_SIGNALS = ("position_signal", "step_signal")


def _preset(
    modes: tuple[str | bool, ...], signals: tuple[str, str], bias_init: float, **others: Any
) -> Mapping[str, Mapping[str, Any]]:
    settings = dict(zip((*_MODES, *_SIGNALS), (*modes, *signals), strict=True))
    groups = {"halting": {"bias_init": bias_init}, "recurrence": settings, **others}
    return MappingProxyType({name: MappingProxyType(group) for name, group in groups.items()})


HALTING_PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        # arXiv 1807.03819, section 2.2.
        "paper": _preset(
            ("copied", "sum", "input", True, "steps+remainder"),
            ("sinusoidal", "sinusoidal"),
            bias_init=-1.0,
            step={"norm": "post", "norm_eps": 1e-5},
            attention={"bias": True},
        ),
        # universal_transformer_util.py, the code printed in the paper's appendix.
        "tensor2tensor": _preset(
            ("running", "ema", "input", False, "steps+remainder"),
            ("sinusoidal0", "learned"),
            bias_init=1.0,
            step={"norm": "pre", "norm_eps": 1e-6},
            attention={"bias": False},
        ),
        # DGL's tutorial "Transformer as a Graph Neural Network".
        "dgl_tutorial": _preset(
            ("stale", "sum", "output", True, "remainder"),
            ("sinusoidal0", "sinusoidal0"),
            bias_init=1.0,
            step={"norm": "pre", "norm_eps": 1e-5},
            attention={"bias": True},
        ),
    }
)
"""Keyword arguments by the source that has these settings, and by the layer that takes them.

`preset["attention"]` is for `MultiHeadAttention`, `preset["step"]` for `UniversalTransformerStep`,
`preset["halting"]` for `HaltingUnit`, `preset["recurrence"]` for `AdaptiveRecurrence`;
`ModelConfig.preset` takes them all. These differences remain:

- tensor2tensor halts a node whose probabilities sum to more than the threshold, here as much is
  enough; its sinusoids are all sines, then all cosines, with exponents over `d / 2 - 1`; its cost
  counts padding.
- The tutorial normalises what its halting unit reads, has one mean cost over encoder and decoder,
  clamps scores to 10, uses one attention for self and cross, and drops features of a state at
  every step.
"""
