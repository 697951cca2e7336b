from __future__ import annotations

from datetime import datetime

import pytest
import torch

import graphut
from graphut.experiments import machine
from graphut.experiments.machine import dated_machine, describe_machine, machine_name

CPU = torch.device("cpu")


def test_dated_machine_has_versions_threads_and_the_date() -> None:
    found = dated_machine(CPU)
    assert found["graphut"] == graphut.__version__
    assert found["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["gpu"] is None and found["cpu"] and found["vectors"]
    assert datetime.fromisoformat(str(found["date"])).tzinfo is not None


def test_describe_machine_has_none_for_a_package_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "_PACKAGES", ("abacus-nine",))
    assert describe_machine(CPU)["abacus-nine"] is None


def test_machine_name_names_each_machine_once() -> None:
    cpu = {"cpu": "Abacus 9", "gpu": None, "threads": 1}
    gpu = {**cpu, "gpu": "Loom 1"}
    assert machine_name([cpu, gpu, cpu]) == "Abacus 9, 1 thread; Loom 1"
