"""Presets whose runs take a second."""

from graphut.experiments.tasks.presets import with_baselines

_TINY = {"d_model": 8, "num_heads": 2, "d_hidden": 8, "max_steps": 2, "epochs": 2, "batch_size": 8}
_SORT = {**_TINY, "mean_length": 3, "length_deviation": 1, "epoch_size": 16, "held_out": 4}
TINY_PRESETS = {
    "sort": with_baselines(_SORT, {"d_model": 4}),
    "algorithmic-copy": with_baselines(_TINY, {"d_model": 4}),
}
