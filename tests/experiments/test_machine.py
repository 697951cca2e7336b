import platform
from pathlib import Path

import pytest
import torch

import graphut
from graphut.experiments import machine
from graphut.experiments.machine import cpu_name, describe_machine

CPU = torch.device("cpu")


def test_describe_machine_has_versions_and_threads() -> None:
    found = describe_machine(CPU)
    assert found["graphut"] == graphut.__version__
    assert found["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["gpu"] is None and found["cpu"]


def test_describe_machine_without_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_PACKAGES", ("abacus-nine",))
    assert describe_machine(CPU)["abacus-nine"] is None


@pytest.mark.parametrize(
    ("text", "processor", "expected"),
    [
        ("processor : 0\nmodel name\t: Abacus: 9\nmodel name\t: Abacus: 9\n", "x", "Abacus: 9"),
        ("Features : none\n", "ARM", "ARM"),
        (None, "", platform.machine()),
    ],
)
def test_cpu_name(
    text: str | None, processor: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(self: Path) -> str:
        if text is None:
            raise FileNotFoundError(self)
        return text

    monkeypatch.setattr(Path, "read_text", read)
    monkeypatch.setattr(platform, "processor", lambda: processor)
    assert cpu_name.__wrapped__() == expected
