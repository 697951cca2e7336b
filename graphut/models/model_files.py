"""Saving and loading: `config.json`, `model.safetensors`, and `NAME_vocabulary.json` for texts."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import safe_open

from graphut._files import (
    encode_json,
    explain_write_errors,
    json_checksum,
    read_checked_json,
    reraise_for_file,
    staged_write,
    with_checksum,
    write_atomically,
)
from graphut._torch import Tensor, torch
from graphut.models.checked_config import quote
from graphut.vocabulary import Vocabulary

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
_VOCABULARY = "_vocabulary.json"
_CHECKSUM = "sha256"
_FAULT = "is damaged or not a safetensors file"


class SavedConfig(NamedTuple):
    """The content of a `config.json`."""

    kind: object  # name of the model's class; anything if the file is not a model's
    values: dict[str, Any]  # fields of the configuration
    vocabularies: Any  # the checksum of each vocabulary by name; None in files of version 0.2
    checksum: str


def save_model(
    folder: str | Path,
    kind: str,
    config: dict[str, Any],
    model: torch.nn.Module,
    outline: torch.nn.Module,
    vocabularies: Mapping[str, Vocabulary],
) -> None:
    """Write a model of class `kind` into a folder; `outline` is made from its configuration.

    Raise `ValueError` if a weight is not finite, or names and shapes differ from the outline's.
    """
    folder, weights = Path(folder), _unique(model)
    with reraise_for_file("the model", "cannot be saved"):
        _check_weights(weights, outline)
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    checksums = {name: json_checksum(each.to_json()) for name, each in vocabularies.items()}
    fields = {"model": kind, "vocabularies": checksums, **config}
    for name, vocabulary in vocabularies.items():
        vocabulary.save(folder / f"{name}{_VOCABULARY}")
    # After a crash between the two renames, the weights contain another checksum.
    with (
        staged_write(folder / CONFIG, encode_json(with_checksum(fields))),
        staged_write(folder / WEIGHTS, *encode_tensors(weights, config=json_checksum(fields))),
    ):
        pass


def read_config(folder: str | Path, kind: str | None = None) -> SavedConfig:
    """Read the `config.json` of a saved model of class `kind`, or of any class."""
    folder = Path(folder)
    if folder.is_file():
        raise NotADirectoryError(f"{folder} is a file: name the folder of the model")
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} is not a model: it has no {name}")
    values = read_checked_json(folder / CONFIG)
    checksum = json_checksum(values)
    saved_kind, vocabularies = values.pop("model", None), values.pop("vocabularies", None)
    if kind not in (None, saved_kind):
        raise ValueError(f"{folder / CONFIG} describes {quote(saved_kind)}, not a {kind}")
    return SavedConfig(saved_kind, values, vocabularies, checksum)


def read_vocabularies(folder: str | Path, saved: SavedConfig) -> dict[str, Vocabulary]:
    """Read the vocabularies in a folder; raise `ValueError` if they do not belong to `saved`."""
    paths = {x.name.removesuffix(_VOCABULARY): x for x in Path(folder).glob(f"*{_VOCABULARY}")}
    checksums = dict.fromkeys(paths) if saved.vocabularies is None else saved.vocabularies
    found = {name: Vocabulary.load(paths[name]) for name in checksums if name in paths}
    for name, checksum in checksums.items():
        if name not in found or checksum not in (None, json_checksum(found[name].to_json())):
            raise ValueError(
                f"{Path(folder, name + _VOCABULARY)} is missing, was edited or belongs to another "
                f"model: restore the file that was saved with {CONFIG}"
            )
    return found


def check_is_trained(folder: str | Path) -> None:
    """Raise `ValueError` if a folder contains a run of `graphut train` without a complete epoch."""
    run, metrics = Path(folder, "run.json"), Path(folder, "metrics.jsonl")
    # A line without its end is of a process that was killed while it wrote the metrics.
    if run.is_file() and not (metrics.is_file() and b"\n" in metrics.read_bytes()):
        task = read_checked_json(run).get("task")
        raise ValueError(
            f"the run in {folder} has not completed an epoch, so it has no model yet: "
            f"graphut train {task} --out {shlex.quote(str(folder))} --resume"
        )


def read_weights(folder: str | Path, saved: SavedConfig) -> dict[str, Tensor]:
    """Read the weights in a folder; raise `ValueError` if they do not belong to `saved`."""
    path = Path(folder) / WEIGHTS
    tensors, metadata = read_checked_tensors(path)
    if metadata.get("config") != saved.checksum:
        raise ValueError(
            f"{path} does not belong to its {CONFIG}, or another program has edited one of them: "
            "restore both"
        )
    return tensors


def load_weights(folder: str | Path, tensors: Mapping[str, Tensor], model: torch.nn.Module) -> None:
    """Copy the weights `tensors`, read from `folder`, into a model, and set its dtype to theirs."""
    with reraise_for_file(Path(folder) / WEIGHTS, "cannot be loaded"):
        _check_weights(tensors, model)
    dtype = next(iter(tensors.values())).dtype
    for name, value in _unique(model.to(dtype)).items():
        value.data.copy_(tensors[name])


def _check_weights(weights: Mapping[str, Tensor], model: torch.nn.Module) -> None:
    """Raise `ValueError` unless weights are finite, have one dtype, and fit a model's tensors."""
    needed = _unique(model)
    missing, unknown = needed.keys() - weights.keys(), weights.keys() - needed.keys()
    for fault, names in (("missing", missing), ("unknown", unknown)):
        if names:
            raise ValueError(f"weights are {fault}: {', '.join(sorted(names)[:5])}")
    for name, value in weights.items():
        if value.shape != needed[name].shape:
            shapes = tuple(value.shape), tuple(needed[name].shape)
            raise ValueError(f"{name} is {shapes[0]}; the configuration makes it {shapes[1]}")
        if not bool(value.isfinite().all()):
            raise ValueError(f"{name} holds NaN or infinity; a model's weights are finite")
    dtypes = {value.dtype for value in weights.values()}
    if len(dtypes) > 1 or not all(dtype.is_floating_point for dtype in dtypes):
        listing = ", ".join(sorted(map(str, dtypes)))
        raise ValueError(f"there are weights in {listing}; all must be in one floating-point dtype")


def _unique(model: torch.nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by name; a shared tensor has only its first name."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], **metadata: str) -> None:
    """Write tensors, which share no storage, and metadata atomically, with a checksum of both."""
    write_atomically(path, *encode_tensors(tensors, **metadata))


def encode_tensors(tensors: Mapping[str, Tensor], **metadata: str) -> tuple[bytes, memoryview]:
    """Return the header and the data of the file that `write_tensors` writes, as two parts."""
    from safetensors.torch import save

    copies = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    data = save(copies, {**metadata, _CHECKSUM: _checksum(copies, metadata)})
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    # `save` leaves the texts in random order, but equal models should make equal files.
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, memoryview(data)[end:]


def read_checked_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the metadata in a file; raise `ValueError` if it is damaged."""
    with reraise_for_file(path, _FAULT):
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if metadata.pop(_CHECKSUM, None) != _checksum(tensors, metadata):
            raise ValueError("its content does not match its checksum")
    return tensors, metadata


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    digest = sha256(repr(sorted(metadata.items())).encode())
    for name, value in sorted(tensors.items()):
        digest.update(repr((name, value.dtype, tuple(value.shape))).encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
