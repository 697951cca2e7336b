from __future__ import annotations

import pytest
import torch

import graphut
from graphut.experiments import machine
from graphut.experiments.machine import benchmark_machine, describe_machine

CPU = torch.device("cpu")


def test_benchmark_machine_has_versions_and_threads() -> None:
    found = benchmark_machine(CPU)
    assert found["graphut"] == graphut.__version__
    assert found["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["gpu"] is None and found["cpu"] and found["vectors"]


def test_describe_machine_has_none_for_a_package_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "_PACKAGES", ("abacus-nine",))
    assert describe_machine(CPU)["abacus-nine"] is None
