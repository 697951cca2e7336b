"""A model in a folder: `config.json` and `model.safetensors`, strict and without pickle."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graphut._files import blaming, read_json, write_json, writing
from graphut.models.tensor_file import read_tensors, write_tensors

CONFIG = "config.json"
WEIGHTS = "model.safetensors"


def save_model(
    folder: str | Path, kind: str, config: dict[str, Any], model: nn.Module, outline: nn.Module
) -> None:
    """Write the configuration and the weights of a model into a folder.

    Weights take long to write. They are first written under another name, so that a crash finds
    the old model or the new one, unless it comes between two renamings. Raise `ValueError` if the
    weights are not those of the `outline` that the configuration makes, or could not be loaded.
    """
    folder, weights = Path(folder), _unique(model)
    with blaming("the model", "cannot be saved"):
        check_shapes("it", {name: tuple(value.shape) for name, value in weights.items()}, outline)
        _common_dtype(weights)
        _check_finite(weights)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    written = folder / f".{WEIGHTS}.{os.getpid()}.tmp"
    try:
        write_tensors(written, weights)
        write_json(folder / CONFIG, {"model": kind, **config})
        written.replace(folder / WEIGHTS)
    finally:
        written.unlink(missing_ok=True)


def read_config(folder: str | Path, kind: str) -> dict[str, Any]:
    """Return the configuration in a folder; raise `ValueError` without a model of the kind."""
    found, config = _read(Path(folder))
    if found != kind:
        raise ValueError(f"{Path(folder, CONFIG)} describes {found!r}, not a {kind}")
    return config


def read_kind(folder: str | Path) -> str:
    """Return the name of the model's class, as `config.json` has it."""
    return str(_read(Path(folder))[0])


def _read(folder: Path) -> tuple[object, dict[str, Any]]:
    """Return the name of the model's class, which may be anything, and its configuration."""
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} is not a model: it has no {name}")
    config = read_json(folder / CONFIG)
    return (config.pop("model", None), config) if isinstance(config, dict) else (None, {})


def load_weights(folder: str | Path, model: nn.Module) -> None:
    """Fill a model from a folder: every weight, of the right shape, and no other.

    The model takes on the dtype of the weights. Raise `ValueError` if the file is damaged, or its
    weights are not this model's.
    """
    path = Path(folder) / WEIGHTS
    tensors, _ = read_tensors(path)
    check_shapes(path, {name: tuple(value.shape) for name, value in tensors.items()}, model)
    with blaming(path):
        dtype = _common_dtype(tensors)
        _check_finite(tensors)
    for name, value in _unique(model.to(dtype)).items():
        value.data.copy_(tensors[name])


def _common_dtype(weights: Mapping[str, Tensor]) -> torch.dtype:
    dtypes = {value.dtype for value in weights.values()}
    if len(dtypes) > 1 or not all(dtype.is_floating_point for dtype in dtypes):
        found = ", ".join(sorted(map(str, dtypes)))
        raise ValueError(f"there are weights in {found}; all must be in one floating-point dtype")
    return dtypes.pop()


def _check_finite(weights: Mapping[str, Tensor]) -> None:
    for name, value in weights.items():
        if not bool(value.isfinite().all()):
            raise ValueError(f"{name} holds NaN or infinity; a model's weights are finite")


def check_shapes(what: object, shapes: Mapping[str, tuple[int, ...]], model: nn.Module) -> None:
    """Raise `ValueError` unless the weights of `what` have a model's names and shapes."""
    wanted = _unique(model)
    missing, unknown = wanted.keys() - shapes.keys(), shapes.keys() - wanted.keys()
    for fault, names in (("lacks", missing), ("has the unknown", unknown)):
        if names:
            raise ValueError(f"{what} {fault} weights {', '.join(sorted(names)[:5])}")
    for name, value in wanted.items():
        if shapes[name] != value.shape:
            raise ValueError(
                f"{what}: {name} is {shapes[name]}; the configuration makes it {tuple(value.shape)}"
            )


def _unique(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers, a shared one under its first name only."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}
