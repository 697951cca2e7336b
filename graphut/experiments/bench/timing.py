"""Times of several programs, taken in turns."""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

from graphut.experiments.bench.peak_memory import settle_allocator

_log = logging.getLogger(__name__)
WARM_UP = 0.05  # seconds
OTHER_BYTES = 64 << 20  # more than the caches of most processors hold
LONG = 0.5  # seconds; a program that takes so long fills the caches itself


Times = dict[str, float]
"""Quartiles of the times of one program, in seconds."""


def quartiles(seconds: Sequence[float]) -> Times:
    """Return the quartiles of some times.

    Examples
    --------
    >>> quartiles([3.0, 1.0, 2.0])
    {'lower': 1.5, 'median': 2.0, 'upper': 2.5}
    """
    if len(seconds) == 1:
        found = [*seconds] * 3
    else:
        found = statistics.quantiles(seconds, n=4, method="inclusive")
    return dict(zip(("lower", "median", "upper"), found, strict=True))


def interleaved(
    runs: Mapping[str, Callable[[], object]],
    repeats: int,
    device: torch.device,
    *,
    warm_up: float = WARM_UP,
    cold: bool = False,
) -> dict[str, Times]:
    """Time programs in turns, so that whatever slows the machine down slows all of them.

    A short program is run for `warm_up` seconds before each timed run: a model, which runs one
    program again and again, would not find the caches full of another program's data. With
    `cold`, other work on 64 MB comes before each timed run instead: the caches hold nothing of the
    program. Every program is run once before the `repeats` timed rounds.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    settle_allocator()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    _log.info("timing %s", ", ".join(runs))
    other = torch.zeros(OTHER_BYTES if cold else 0, dtype=torch.uint8, device=device)
    first = {name: _time(run, device) for name, run in runs.items()}
    for number in range(1, repeats + 1):
        _log.info("round %d of %d", number, repeats)
        for name, run in runs.items():
            if cold:
                other.add_(1)
            elif first[name] < LONG:
                _warm_up(run, warm_up)
            seconds[name].append(_time(run, device))
    return {name: quartiles(taken) for name, taken in seconds.items()}


def _warm_up(run: Callable[[], object], seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        run()


def _time(run: Callable[[], object], device: torch.device) -> float:
    _wait(device)
    start = time.perf_counter()
    result = run()
    _wait(device)
    taken = time.perf_counter() - start
    del result  # freeing it is not timed
    return taken


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
