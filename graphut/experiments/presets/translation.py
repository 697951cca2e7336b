"""The presets of translation."""

from __future__ import annotations

from typing import Any

from graphut.experiments.presets.baselines import with_baselines

PAPER = "paper"
"""The paper's base size, which does not halt (arXiv 1807.03819, section 3.6): for a GPU."""

_ALL = {"share_embeddings": True, "label_smoothing": 0.1}
_SIZES = {**_ALL, "d_model": 256, "d_hidden": 1024, "max_steps": 6}
_SMALL = {**_SIZES, "dropout": 0.2, "warmup": 1000, "patience": 5}
_MULTI30K = {**_SMALL, "epochs": 12}
# Ten thousand pairs of long sentences, a third of Multi30k's: a trial.
_WMT14 = {
    **_SMALL,
    "d_model": 128,
    "d_hidden": 512,
    "epochs": 10,
    "corpus": "small",
    "subwords": 4000,
    "longest": 60,
}

# Layers of half the width have a quarter of the weights.
_LAYERS = {"d_model": 128, "d_hidden": 512, "max_steps": 6}
_NARROW_LAYERS = {"d_model": 64, "d_hidden": 256, "max_steps": 6}

# tensor2tensor's universal_transformer_base, and of transformer_base the largest learning rate:
# 2 / sqrt(1024 * 8000).
_BASE = {
    **_ALL,
    "d_model": 1024,
    "d_hidden": 4096,
    "num_heads": 16,
    "max_steps": 6,
    "adaptive": False,
    "dropout": 0.3,
    "attention_dropout": 0.1,
    "optimizer": "adam",
    "weight_decay": 0.0,
    "learning_rate": 7e-4,
}
_PAPER: dict[str, dict[str, Any]] = {
    "multi30k": {**_BASE, "batch_size": 128, "warmup": 2000, "epochs": 40},
    "wmt14": {
        **_BASE,
        "batch_size": 256,
        "warmup": 8000,
        "epochs": 256,
        "patience": 256,
        "subwords": 32_000,
    },
}

PRESETS = {
    "multi30k": {**with_baselines(_MULTI30K, _LAYERS), PAPER: _PAPER["multi30k"]},
    "wmt14": {**with_baselines(_WMT14, _NARROW_LAYERS), PAPER: _PAPER["wmt14"]},
}
