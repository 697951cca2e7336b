"""Safetensors files with a checksum, which is verified when the file is read."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from safetensors import safe_open

from graphut._files import reraise_for_file, write_atomically
from graphut._torch import Tensor, torch

_CHECKSUM = "sha256"
_FAULT = "is damaged or not a safetensors file"


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
