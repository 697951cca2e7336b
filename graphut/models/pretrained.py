"""A model in a folder: `config.json` and `model.safetensors`, both with checksums."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from graphut._files import (
    encode_json,
    explain_write_errors,
    json_checksum,
    read_checked_json,
    reraise_for_file,
    staged_write,
    warn_unchecked,
    with_checksum,
)
from graphut.models.checked_config import quote
from graphut.models.tensor_file import encode_tensors, read_checked_tensors

CONFIG = "config.json"
WEIGHTS = "model.safetensors"


class SavedConfig(NamedTuple):
    """The content of a `config.json`."""

    kind: object  # name of the model's class; anything if the file is not a model's
    values: dict[str, Any]  # fields of the configuration
    checksum: str  # of the content
    has_checksum: bool  # whether the file had the checksum


def save_model(
    folder: str | Path, kind: str, config: dict[str, Any], model: nn.Module, outline: nn.Module
) -> None:
    """Write the configuration and the weights of a model into a folder.

    Both files are written under temporary names and then renamed, one right after the other. The
    weights keep the checksum of their configuration: after a crash between the two renames, a
    changed configuration is detected and not used with the old weights.

    Raises
    ------
    ValueError
        If the weights do not have the names and shapes of the `outline`, a model made from the
        configuration, or could not be loaded.
    """
    folder, weights = Path(folder), _unique(model)
    with reraise_for_file("the model", "cannot be saved"):
        check_shapes("it", {name: tuple(value.shape) for name, value in weights.items()}, outline)
        _common_dtype(weights)
        _check_finite(weights)
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    fields = {"model": kind, **config}
    with (
        staged_write(folder / CONFIG, encode_json(with_checksum(fields))),
        staged_write(folder / WEIGHTS, *encode_tensors(weights, config=json_checksum(fields))),
    ):
        pass


def read_saved_config(folder: str | Path) -> SavedConfig:
    """Read and check the `config.json` of a model; raise `ValueError` if it is not a model."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} is not a model: it has no {name}")
    values, has_checksum = read_checked_json(folder / CONFIG)
    checksum = json_checksum(values)
    return SavedConfig(values.pop("model", None), values, checksum, has_checksum)


def read_config(folder: str | Path, kind: str) -> SavedConfig:
    """Read a configuration; raise `ValueError` if it is not one of a model of this kind."""
    saved = read_saved_config(folder)
    if saved.kind != kind:
        raise ValueError(f"{Path(folder, CONFIG)} describes {quote(saved.kind)}, not a {kind}")
    return saved


def load_weights(folder: str | Path, saved: SavedConfig, model: nn.Module) -> None:
    """Fill a model with the weights in a folder, and take on their dtype.

    Warn if a file comes from an older version of graphut and has no checksum.

    Raises
    ------
    ValueError
        If the file is damaged, was not saved with this `config.json`, or its weights do not have
        the names and shapes of the model's.
    """
    path = Path(folder) / WEIGHTS
    tensors, metadata, has_checksum = read_checked_tensors(path)
    config_checksum = metadata.get("config")
    if config_checksum is None and not saved.has_checksum:
        names = [CONFIG] if has_checksum else [CONFIG, WEIGHTS]
        warn_unchecked(*(Path(folder, name) for name in names))
    elif config_checksum != saved.checksum or not has_checksum:
        raise ValueError(
            f"{path} does not belong to its {CONFIG}, or another program has edited one of them: "
            "restore both"
        )
    check_shapes(path, {name: tuple(value.shape) for name, value in tensors.items()}, model)
    with reraise_for_file(path):
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
