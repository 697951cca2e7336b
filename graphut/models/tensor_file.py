"""Files of tensors: safetensors, written whole, with a checksum that is verified."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from graphut._files import blaming, write_atomically

_CHECKSUM = "sha256"
_FAULT = "is damaged or not a safetensors file"


def write_tensors(path: Path, tensors: Mapping[str, Tensor], **metadata: str) -> None:
    """Write tensors that share no storage, and texts, with a checksum of both."""
    copies = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    write_atomically(path, save(copies, {**metadata, _CHECKSUM: _digest(copies, metadata)}))


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors in a file, from its header alone."""
    with blaming(path, _FAULT), safe_open(path, framework="pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the texts in a file; raise `ValueError` if it is damaged.

    A file of an older version has no checksum, and is warned of.
    """
    with blaming(path, _FAULT):
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        saved = metadata.pop(_CHECKSUM, None)
        if saved not in (None, _digest(tensors, metadata)):
            raise ValueError("its checksum is that of other numbers")
    if saved is None:
        warnings.warn(
            f"{path} has no checksum, since an older version of graphut wrote it: it is loaded as "
            "it is",
            stacklevel=4,
        )
    return tensors, metadata


def _digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    digest = sha256(repr(sorted(metadata.items())).encode())
    for name, value in sorted(tensors.items()):
        digest.update(repr((name, value.dtype, tuple(value.shape))).encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
