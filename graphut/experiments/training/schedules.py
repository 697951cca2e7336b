"""What rises and falls in the course of training."""

from __future__ import annotations

from math import cos, pi


def learning_rate_factor(done: int, warmup: int, updates: int) -> float:
    """Share of the largest learning rate after some updates: up on a line, down on a cosine.

    Parameters
    ----------
    done : int
        Updates done.
    warmup : int
        Updates on the way up; half of all updates, if that is less.
    updates : int
        Updates in all; then the rate is 0.

    Examples
    --------
    >>> [learning_rate_factor(done, 2, 10) for done in (0, 1, 2, 6, 10)]
    [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    warmup = min(warmup, updates // 2)
    if done < warmup:
        return (done + 1) / warmup
    progress = (done - warmup) / max(updates - warmup, 1)
    return (1 + cos(pi * min(progress, 1.0))) / 2


def ponder_factor(done: int, warmup: int) -> float:
    """Share of the ponder weight after some updates: from 0 up on a line.

    Examples
    --------
    >>> [ponder_factor(done, 4) for done in (0, 1, 4, 9)]
    [0.0, 0.25, 1.0, 1.0]
    """
    return min(done / warmup, 1.0) if warmup else 1.0
