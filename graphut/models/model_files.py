"""Files of saved models: `config.json`, `vocabularies.json` and `model.safetensors`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open

from graphut._files import (
    explain_write_errors,
    read_json,
    reraise_for_file,
    write_atomically,
    write_json,
)
from graphut._torch import Tensor, torch
from graphut.models.checked_config import quote
from graphut.vocabulary import Vocabulary, vocabulary_from_json

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
_VOCABULARIES = "vocabularies.json"


def save_model(
    folder: str | Path,
    config: Mapping[str, Any],
    model: torch.nn.Module,
    vocabularies: Mapping[str, Vocabulary],
) -> None:
    """Write a model into a folder; raise `ValueError` if a weight is not finite."""
    folder, weights = Path(folder), _tensors(model)
    for name, value in weights.items():
        if not bool(value.isfinite().all()):
            raise ValueError(f"the model cannot be saved: {name} holds NaN or infinity")
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / CONFIG, {"model": type(model).__name__, **config})
    states = {name: vocabulary.to_json() for name, vocabulary in vocabularies.items()}
    write_json(folder / _VOCABULARIES, states)
    write_tensors(folder / WEIGHTS, weights)


def read_config(folder: str | Path, kind: str | None = None) -> tuple[Any, dict[str, Any]]:
    """Return the name of a saved model's class, which must be `kind` if given, and its fields."""
    folder = Path(folder)
    if folder.is_file():
        raise NotADirectoryError(f"{folder} is a file: name the folder of the model")
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} is not a model: it has no {name}")
    values = read_json(folder / CONFIG)
    saved_kind = values.pop("model", None)
    if kind not in (None, saved_kind):
        raise ValueError(f"{folder / CONFIG} describes {quote(saved_kind)}, not a {kind}")
    return saved_kind, values


def read_vocabularies(folder: str | Path) -> dict[str, Vocabulary]:
    """Read the vocabularies of a saved model; none if the folder has no file of them."""
    path = Path(folder, _VOCABULARIES)
    if not path.exists():
        return {}
    states = read_json(path)
    with reraise_for_file(path, "is damaged"):
        return {name: vocabulary_from_json(state) for name, state in states.items()}


def check_is_trained(folder: str | Path) -> None:
    """Raise `ValueError` if a folder contains a run of `graphut train` without a complete epoch."""
    run, metrics = Path(folder, "run.json"), Path(folder, "metrics.jsonl")
    # A line without its end is of a process that was killed while it wrote the metrics.
    if run.is_file() and not (metrics.is_file() and b"\n" in metrics.read_bytes()):
        task = read_json(run).get("task")
        raise ValueError(
            f"the run in {folder} has not completed an epoch, so it has no model yet: "
            f"graphut train {task} --out {shlex.quote(str(folder))} --resume"
        )


def load_weights(folder: str | Path, model: torch.nn.Module) -> None:
    """Load the weights in a folder into a model, which takes over their dtypes."""
    path = Path(folder) / WEIGHTS
    weights, needed = read_tensors(path)[0], _tensors(model)
    faults = {"missing": needed.keys() - weights.keys(), "unknown": weights.keys() - needed.keys()}
    for fault, names in faults.items():
        if names:
            raise ValueError(f"{path}: weights are {fault}: {', '.join(sorted(names)[:5])}")
    for name, value in needed.items():
        if weights[name].shape != value.shape:
            shapes = tuple(weights[name].shape), tuple(value.shape)
            text = f"{name} is {shapes[0]}; the configuration makes it {shapes[1]}"
            raise ValueError(f"{path}: {text}")
        value.data = weights[name].clone()  # the file's own memory is not aligned


def _tensors(model: torch.nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by name; a shared tensor has only its first name."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], **metadata: str) -> None:
    """Write tensors, which share no storage, and metadata to a safetensors file, atomically."""
    from safetensors.torch import save

    copies = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    write_atomically(path, save(copies, metadata or None))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the metadata in a file; raise `ValueError` if it is damaged."""
    with (
        reraise_for_file(path, "is damaged or not a safetensors file"),
        safe_open(path, framework="pt") as file,
    ):
        return {x: file.get_tensor(x) for x in file.keys()}, file.metadata() or {}  # noqa: SIM118
