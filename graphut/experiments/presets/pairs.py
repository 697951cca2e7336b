"""The presets of tasks of pairs."""

from __future__ import annotations

from typing import Any

from graphut.experiments.presets.baselines import with_baselines
from graphut.experiments.presets.deep import DEEP
from graphut.experiments.tasks import AlgorithmicAddition

_SIZES = {"d_model": 64, "d_hidden": 256, "max_steps": 6, "share_embeddings": True, "epochs": 40}
# For these three see the table in the README.
_SORT = {**_SIZES, "learning_rate": 3e-3, "halting_bias": -2.0, "ponder_weight": 1e-4}
# A price from the first update on: without it the decoder may go to the cap, and then stays there.
# Offsets: the few sequences much longer than the mean are else the ones that are wrong.
_COPY = {
    **_SIZES,
    "learning_rate": 2e-3,
    "ponder_weight": 0.02,
    "ponder_warmup": 0,
    "max_offset": 10,
}
# Positions lie apart by chance, ends can be seen, and attention over 400 tokens stays as sharp as
# over 40; wide heads tell all positions apart, and beyond 400 there is room, since positions at the
# edge are seldom seen. Epochs are long: that all of up to 40 are right is no reason to stop.
_COPY_LONG = {
    **_COPY,
    "num_heads": 2,
    "max_offset": 460,
    "scale_by_degree": True,
    "spread_positions": True,
    "frame_source": True,
    "epoch_size": 120_000,
    "epochs": 4,
}
# What the first answer is copied from is the last token: it is found by its place from the end.
_REVERSE_LONG = {**_COPY_LONG, "source_positions": "both"}
# Digits of one place have one position, and a carry comes from the place before: the next digits
# are all that a token needs to see of its own side, however long the numbers are.
_ADDITION_LONG = {
    **_COPY_LONG,
    "ponder_weight": 1e-3,
    "restart_after": AlgorithmicAddition().source_vocabulary.encode("+")[0],
    "encoder_topology": "window:2",
    "decoder_topology": "window:2&causal",
    "epochs": 6,
}
_LTE_MEMORY = {**_COPY, "max_offset": 0}
_SCAN = {**_SIZES, "share_embeddings": False, "dropout": 0.1, "target_accuracy": 0.999}
_LTE = {**_SIZES, **DEEP, "d_model": 128, "d_hidden": 512, "batch_size": 32, "epochs": 30}
# Nine tenths of all expressions have at most 100 symbols. Few are soon known by heart.
_LISTOPS = {
    **_SIZES,
    **DEEP,
    "share_embeddings": False,
    "longest": 100,
    "train_size": 200_000,
    "epochs": 4,
}

# Layers of half the width have a quarter of the weights.
_LAYERS = {"d_model": 32, "d_hidden": 128, "max_steps": 4}
_WIDE_LAYERS = {"d_model": 64, "d_hidden": 256, "max_steps": 4}

_BY_TASK: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "copy": (_COPY, _LAYERS),
    "reverse": (_COPY, _LAYERS),
    "sort": (_SORT, _LAYERS),
    "algorithmic-copy": (_COPY_LONG, _LAYERS),
    "algorithmic-reverse": (_REVERSE_LONG, _LAYERS),
    "algorithmic-addition": (_ADDITION_LONG, _LAYERS),
    "lte-program": (_LTE, _WIDE_LAYERS),
    "lte-control": (_LTE, _WIDE_LAYERS),
    "lte-addition": (_LTE, _WIDE_LAYERS),
    "lte-copy": (_LTE_MEMORY, _LAYERS),
    "lte-double": (_LTE_MEMORY, _LAYERS),
    "lte-reverse": (_LTE_MEMORY, _LAYERS),
    "scan": (_SCAN, _LAYERS),
    "listops": (_LISTOPS, _LAYERS),
}

PRESETS = {task: with_baselines(*values) for task, values in _BY_TASK.items()}
