"""Hold out examples by a hash, and cut a long text into windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks.base import Text

T = TypeVar("T")


def hold_out(
    items: Iterable[T], held_out: int, text: Callable[[T], bytes]
) -> tuple[list[T], list[T]]:
    """Return the remaining items, and `held_out` items that a hash of `text(item)` selects.

    The order of the items does not change the result.
    """
    ranked = sorted(items, key=lambda item: (crc32(text(item)), text(item)))
    if held_out >= len(ranked):
        raise ValueError(f"held_out must be less than {len(ranked)}, got {held_out}")
    return ranked[held_out:], ranked[:held_out]


def random_windows(
    tokens: NDArray[Any], length: int, count: int, *, seed: int, epoch: int
) -> list[Text]:
    """Draw `count` windows of `length` tokens at random positions of a text, for training.

    If the text is shorter than `length`, each window is the whole text.
    """
    places = max(len(tokens) - length, 0) + 1
    starts = np.random.default_rng([seed, epoch]).integers(places, size=count)
    return [Text(tokens[start : start + length].tolist()) for start in starts]


def strided_windows(tokens: NDArray[Any], length: int) -> list[Text]:
    """Return overlapping windows of a text for evaluation; each token is scored in one window.

    The stride is half a window, and the tokens shared with the previous window are context. So
    each scored token has at least half a window of context, or the whole text before it.
    """
    stride = max(length // 2, 1)
    starts = range(0, max(len(tokens) - length, 0) + stride, stride)
    overlap = length - stride
    windows = [
        Text(tokens[start : start + length].tolist(), overlap if start else 0) for start in starts
    ]
    return [window for window in windows if len(window.tokens) > window.context]
