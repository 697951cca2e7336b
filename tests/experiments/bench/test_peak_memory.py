from pathlib import Path

import pytest
import torch

from graphut.experiments.bench import peak_memory
from graphut.experiments.bench.peak_memory import peak_bytes

CPU = torch.device("cpu")
MIB = 1 << 20

linux = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="needs Linux, which counts pages"
)


def fill(mib: int) -> torch.Tensor:
    return torch.full((mib * MIB // 4,), 1.0)


@linux
def test_peak_bytes_counts_what_is_held_at_once() -> None:
    kept = fill(16)  # before: does not count

    def run() -> torch.Tensor:
        first = fill(24)
        second = first + 1  # beside the first
        del first
        return second * kept[0]

    for _ in range(2):  # what one run frees is not hidden from the next
        assert peak_bytes(run, CPU) == pytest.approx(48 * MIB, abs=2 * MIB)


@linux
def test_peak_bytes_counts_small_tensors_and_memory_outside_torch() -> None:
    small = peak_bytes(lambda: [torch.ones(4096) for _ in range(1024)], CPU)
    assert small == pytest.approx(16 * MIB, abs=2 * MIB)
    # The process may free a few pages of other objects meanwhile.
    other = peak_bytes(lambda: b"x" * 64 * MIB, CPU)
    assert other == pytest.approx(64 * MIB, abs=4 * MIB)


@linux
def test_peak_bytes_leaves_out_what_is_made_once_and_kept() -> None:
    kept: list[torch.Tensor] = []
    peak = peak_bytes(lambda: kept or kept.append(fill(16)), CPU)
    assert peak is not None and peak < MIB


def test_peak_bytes_is_none_elsewhere_than_on_linux(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peak_memory, "_PROCESS", tmp_path / "nowhere")
    assert peak_bytes(lambda: None, CPU) is None
