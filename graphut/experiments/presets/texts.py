"""The presets of tasks of texts."""

from __future__ import annotations

from typing import Any

from graphut.experiments.presets.baselines import with_baselines

# Normalised after each part, models of language hardly begin to learn so fast: those that may halt
# halt at once, and the others stay where they are.
_ALL = {"norm": "pre", "ponder_weight": 0.01, "ponder_warmup": 0}
_CHAR_LM = {
    **_ALL,
    "d_model": 128,
    "d_hidden": 512,
    "max_steps": 6,
    "batch_size": 16,
    "learning_rate": 2e-3,
    "epochs": 30,
}
_AGREEMENT = {
    **_ALL,
    "d_model": 64,
    "d_hidden": 256,
    "max_steps": 6,
    "dropout": 0.2,
    "learning_rate": 3e-3,
    "epochs": 20,
    "patience": 5,
}
_LAMBADA = {
    **_ALL,
    "d_model": 128,
    "d_hidden": 512,
    "max_steps": 6,
    "dropout": 0.3,
    "batch_size": 16,
    "learning_rate": 2e-3,
    "epochs": 15,
    "patience": 3,
}

_BY_TASK: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "char-lm": (_CHAR_LM, {"d_model": 64, "d_hidden": 256, "max_steps": 4}),
    # Most weights are those of words: of the same width, two layers are as large as one step.
    "agreement": (_AGREEMENT, {"d_hidden": 64, "max_steps": 2}),
    "lambada": (_LAMBADA, {"d_hidden": 128, "max_steps": 2}),
}

PRESETS = {task: with_baselines(*values) for task, values in _BY_TASK.items()}
