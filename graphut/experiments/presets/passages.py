"""The presets of tasks of passages."""

from __future__ import annotations

from typing import Any

from graphut.experiments.presets.baselines import with_baselines

# Few passages and many words: most weights are embeddings, and dropout has much to do.
_READING: dict[str, Any] = {
    "positions": "end",
    "d_model": 64,
    "d_hidden": 256,
    "max_steps": 4,
    "dropout": 0.2,
    "epochs": 20,
    "patience": 5,
}
_LAYERS = {"d_model": 64, "d_hidden": 64, "max_steps": 2}

PRESETS = {"lambada-reading": with_baselines(_READING, _LAYERS)}
