from __future__ import annotations

import pytest
import torch

from graphut.experiments.bench import timing
from graphut.experiments.bench.timing import interleaved, quartiles


def same(seconds: float) -> dict[str, float]:
    return dict.fromkeys(("lower", "median", "upper"), seconds)


def test_interleaved_runs_programs_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: float(next(clock)))
    order: list[str] = []

    def long() -> None:
        order.append("long")
        next(clock)

    times = interleaved(
        {"short": lambda: order.append("short"), "long": long}, 3, torch.device("cpu")
    )
    assert order == ["short", "long"] * 4  # once before
    assert times == {"short": same(1.0), "long": same(2.0)}


def test_interleaved_warms_up_short_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    order: list[str] = []

    def run(name: str, seconds: float) -> None:
        order.append(name)
        clock[0] += seconds

    programs = {"short": lambda: run("short", 0.02), "long": lambda: run("long", 0.6)}
    times = interleaved(programs, 1, torch.device("cpu"))
    assert order == ["short", "long", *["short"] * 4, "long"]
    assert times["short"]["median"] == pytest.approx(0.02)


def test_interleaved_does_other_work_before_a_cold_run(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    order: list[int | str] = []

    class Other:
        def add_(self, number: int) -> None:
            order.append(number)
            clock[0] += 5.0  # none of it is timed

    def run() -> None:
        order.append("run")
        clock[0] += 0.5

    monkeypatch.setattr(timing.torch, "zeros", lambda size, **_: Other())
    times = interleaved({"run": run}, 2, torch.device("cpu"), cold=True)
    assert order == ["run", *[1, "run"] * 2]
    assert times["run"] == same(0.5)


def test_interleaved_refuses_zero_repeats() -> None:
    with pytest.raises(ValueError, match="repeats must be at least 1, got 0"):
        interleaved({}, 0, torch.device("cpu"))


def test_quartiles_of_one_time() -> None:
    assert quartiles([2.0]) == same(2.0)
