from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from graphut.models.tensor_file import read_shapes, read_tensors, write_tensors

TENSORS = {
    "matrix": torch.arange(6.0).view(2, 3),
    "transposed": torch.arange(6.0, dtype=torch.float64).view(2, 3).T,
    "brain": torch.ones(3, dtype=torch.bfloat16),
    "number": torch.tensor(7),
    "none": torch.empty(0, 4),
}


def test_read_tensors_returns_what_write_tensors_wrote(tmp_path: Path) -> None:
    write_tensors(tmp_path / "file", TENSORS, note="kept")
    found, texts = read_tensors(tmp_path / "file")
    assert texts == {"note": "kept"}
    assert found.keys() == TENSORS.keys()
    for name, value in TENSORS.items():
        assert found[name].dtype == value.dtype and torch.equal(found[name], value)


def test_write_tensors_writes_equal_files(tmp_path: Path) -> None:
    texts = {name: f'"{name}" ü' for name in "abcdefgh"}
    for name in ("one", "two"):
        write_tensors(tmp_path / name, TENSORS, **texts)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert read_tensors(tmp_path / "one")[1] == texts


def test_read_shapes_reads_the_header(tmp_path: Path) -> None:
    write_tensors(tmp_path / "file", TENSORS)
    assert read_shapes(tmp_path / "file") == {n: tuple(v.shape) for n, v in TENSORS.items()}


def test_read_shapes_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_shapes(tmp_path / "file")


def test_read_tensors_tells_every_changed_byte(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_tensors(path, {"a": torch.arange(4.0)}, note="kept")
    data = path.read_bytes()
    for index in range(len(data)):
        path.write_bytes(data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :])
        try:
            found, texts = read_tensors(path)
        except (UserWarning, ValueError):
            continue
        assert data[index : index + 1].isspace() or data[index] == 0
        assert texts == {"note": "kept"} and torch.equal(found["a"], torch.arange(4.0))


def test_read_tensors_warns_of_a_file_without_a_checksum(tmp_path: Path) -> None:
    write_tensors(tmp_path / "file", TENSORS)
    save_file(load_file(tmp_path / "file"), tmp_path / "older")
    with pytest.warns(UserWarning, match=r"damage to .*/older cannot be detected"):
        found, _ = read_tensors(tmp_path / "older")
    assert torch.equal(found["matrix"], TENSORS["matrix"])
