import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphut.experiments.bench import driver
from graphut.experiments.bench.driver import CPU, largest_error, measure, rows_text

MIB = 1 << 20


class Clock:
    """A clock that stands still unless a program says how long it takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.order = 0.0, []
        monkeypatch.setattr(driver, "timer", lambda: self.now)
        monkeypatch.setattr(driver, "peak_bytes", lambda run, device: None)

    def program(self, name: str, *seconds: float) -> Callable[[], None]:
        times = iter(seconds * 100)

        def run() -> None:
            self.order.append(name)
            self.now += next(times)

        return run


def test_measure_runs_contenders_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    programs = {"a": clock.program("a", 1.0, 2.0, 4.0, 3.0), "b": clock.program("b", 0.5)}
    a, b = measure("some work", programs, repeats=3, device=CPU)
    assert clock.order == ["a", "b"] * 4  # once before the timed rounds
    assert a == {
        "workload": "some work", "contender": "a", "ms": 3000.0, "lower_ms": 2500.0,
        "upper_ms": 3500.0, "peak_mib": None,
    }  # fmt: skip
    assert b["contender"] == "b" and b["lower_ms"] == b["ms"] == b["upper_ms"] == 500.0


def test_measure_warms_up_short_contenders(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    programs = {"short": clock.program("short", 0.02), "long": clock.program("long", 0.6)}
    rows = measure("work", programs, repeats=1, device=CPU)
    assert clock.order == ["short", "long", *["short"] * 4, "long"]
    assert rows[0]["ms"] == pytest.approx(20)


def test_measure_writes_other_data_before_a_cold_run(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    class Other:
        def add_(self, number: int) -> None:
            clock.program("other", 5.0)()  # not timed

    sizes: list[int] = []
    monkeypatch.setattr(driver.torch, "zeros", lambda size, **_: sizes.append(size) or Other())
    (row,) = measure("work", {"a": clock.program("a", 0.1)}, repeats=2, device=CPU, cold=True)
    assert clock.order == ["a", *["other", "a"] * 2] and sizes == [64 * MIB]
    assert row["ms"] == pytest.approx(100)


def test_largest_error() -> None:
    one, zero = torch.ones(4), torch.zeros(4)
    assert largest_error([one, 1.1 * one], [one, one]) == pytest.approx(0.1)
    assert largest_error([one, one * math.nan], [one, one]) == math.inf
    # A gradient that is zero but for rounding counts beside the other gradients.
    assert largest_error([one, zero + 1e-7, one], [one, zero, one]) == pytest.approx(1e-7)
    with pytest.raises(ValueError, match=r"has shape \(2,\), not \(3,\)"):
        largest_error([torch.ones(2)], [torch.ones(3)])


def test_rows_text_shows_known_figures_and_notes() -> None:
    def row(contender: str, ms: float, **figures: Any) -> dict[str, Any]:
        return {"contender": contender, "ms": ms, "lower_ms": ms, "upper_ms": 2 * ms, **figures}

    rows = [
        row("dgl", 40.0, peak_mib=10.0),
        row("torch", 10.0, error=3e-7, gflop_s=1.5, matmul_share=0.25),
        {"contender": "pyg", "note": "not installed: pip install torch_geometric"},
    ]
    others = [row("dense", 3.0, relative_flops=1.0), row("adaptive", 1.0, relative_flops=0.3)]
    rows = [{"workload": "one", **row} for row in rows]
    text = rows_text([*rows, *({"workload": "two", **row} for row in others)], ["dgl", "pyg"])
    one, two = (part.splitlines() for part in text.split("\n\n"))
    head = "contender ms quartiles peak MiB GFLOP/s of matmul error x dgl"
    assert one[0] == "one" and " ".join(one[1].split()) == head
    assert one[2].split() == ["dgl", "40.0", "40.0-80.0", "10.0", "1.00"]
    assert " ".join(one[3].split()) == "torch 10.0 10.0-20.0 1.50 25% 3e-07 4.00"
    assert one[4].split("  ")[-1] == "not installed: pip install torch_geometric"
    assert [line.split()[-1] for line in two] == ["two", "FLOPs", "100.0%", "30.0%"]
