"""The presets of tasks of questions."""

from __future__ import annotations

from typing import Any

from graphut.experiments.presets.baselines import with_baselines
from graphut.experiments.presets.deep import DEEP

PAPER = "paper"
"""tensor2tensor's adaptive_universal_transformer_tiny, which the authors' own recipe for bAbI names
(github.com/MostafaDehghani/bAbI-T2T); the paper does not say its sizes."""

# Sentences are counted back from the question: the last ones are what matters most, and what "he"
# or "after that" speaks of is in the sentence before. A thousand stories are soon known by heart:
# dropout, offsets, decay and small batches are against that.
_BABI = {
    **DEEP,
    "positions": "end",
    "d_model": 64,
    "d_hidden": 256,
    "max_steps": 6,
    "dropout": 0.1,
    "max_offset": 20,
    "weight_decay": 0.1,
    "batch_size": 32,
    "warmup": 500,
    "epochs": 150,
    "patience": 150,
    "target_accuracy": 0.999,
}
# As many weights with the few words of one task, and with those of all.
_LAYERS = {"d_model": 40, "d_hidden": 80, "max_steps": 4}

# One node a sentence, from the first one on; ten of such runs were made, and the best taken.
_PAPER: dict[str, Any] = {
    "d_model": 128,
    "d_hidden": 512,
    "num_heads": 4,
    "max_steps": 4,
    "halting_bias": 1.0,
    "ponder_weight": 0.01,
    "ponder_warmup": 0,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "label_smoothing": 0.1,
    "longest_story": 130,
    "epochs": 1000,
    "patience": 1000,
}

PRESETS = {"babi": {**with_baselines(_BABI, _LAYERS), PAPER: _PAPER}}
