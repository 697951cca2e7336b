from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphut.experiments.machine import describe_machine
from graphut.experiments.training import machines
from graphut.experiments.training.machines import MACHINES, read_machines, remember_machine

CPU = torch.device("cpu")


def test_each_machine_is_remembered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_machines(tmp_path) == []
    here = describe_machine(CPU)
    remember_machine(tmp_path, CPU)
    remember_machine(tmp_path, CPU)
    assert read_machines(tmp_path) == [here]

    there = here | {"cpu": "Abacus 9"}
    monkeypatch.setattr(machines, "describe_machine", lambda device: there)
    remember_machine(tmp_path, CPU)
    assert read_machines(tmp_path) == [here, there]


def test_a_broken_file(tmp_path: Path) -> None:
    (tmp_path / MACHINES).write_text("[{")
    with pytest.raises(ValueError, match=r"machines\.json is not a JSON file"):
        remember_machine(tmp_path, CPU)
