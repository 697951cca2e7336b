from pathlib import Path

import torch

from graphut.models.model_files import read_checked_tensors, write_tensors

TENSORS = {
    "matrix": torch.arange(6.0).view(2, 3),
    "transposed": torch.arange(6.0, dtype=torch.float64).view(2, 3).T,
    "brain": torch.ones(3, dtype=torch.bfloat16),
    "number": torch.tensor(7),
    "none": torch.empty(0, 4),
}


def test_write_tensors_writes_equal_files(tmp_path: Path) -> None:
    texts = {name: f'"{name}" ü' for name in "abcdefgh"}
    for name in ("one", "two"):
        write_tensors(tmp_path / name, TENSORS, **texts)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert read_checked_tensors(tmp_path / "one")[1] == texts


def test_read_checked_tensors_detects_every_changed_byte(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_tensors(path, {"a": torch.arange(4.0)}, note="kept")
    data = path.read_bytes()
    for index in range(len(data)):
        path.write_bytes(data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :])
        try:
            found, texts = read_checked_tensors(path)
        except ValueError:
            continue
        assert data[index : index + 1].isspace() or data[index] == 0
        assert texts == {"note": "kept"} and torch.equal(found["a"], torch.arange(4.0))
