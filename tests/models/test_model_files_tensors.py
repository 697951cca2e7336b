from pathlib import Path

import torch

from graphut.models.model_files import read_tensors, write_tensors
from tests.helpers import refuses

TENSORS = {
    "matrix": torch.arange(6.0).view(2, 3),
    "transposed": torch.arange(6.0, dtype=torch.float64).view(2, 3).T,
    "brain": torch.ones(3, dtype=torch.bfloat16),
    "number": torch.tensor(7),
    "none": torch.empty(0, 4),
}


def test_read_tensors_returns_what_write_tensors_wrote(tmp_path: Path) -> None:
    texts = {name: f'"{name}" ü' for name in "abcdefgh"}
    write_tensors(path := tmp_path / "file", TENSORS, **texts)
    found, metadata = read_tensors(path)
    assert metadata == texts and found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], value) for name, value in TENSORS.items())
    path.write_bytes(path.read_bytes()[:-1])
    refuses(r"file is damaged or not a safetensors file", read_tensors, path)
