"""Windows out of one long text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks.base import Text


def drawn_windows(
    tokens: NDArray[Any], length: int, count: int, *, seed: int, epoch: int
) -> list[Text]:
    """Windows at random places, to train on.

    Parameters
    ----------
    tokens : ndarray
        Token ids of the text.
    length : int
        Tokens of a window; the whole text where it is shorter.
    count : int
        How many.
    seed, epoch : int
        What the places are a function of.

    Examples
    --------
    >>> [text.tokens for text in drawn_windows(np.arange(9), 3, 2, seed=0, epoch=0)]
    [[5, 6, 7], [4, 5, 6]]
    """
    places = max(len(tokens) - length, 0) + 1
    starts = np.random.default_rng([seed, epoch]).integers(places, size=count)
    return [Text(tokens[start : start + length].tolist()) for start in starts]


def strided_windows(tokens: NDArray[Any], length: int) -> list[Text]:
    """Windows over all of a text, to be judged on: each token counts in exactly one of them.

    A window begins half a window after the one before it, and counts what that one has not
    reached. So every token that counts is predicted from half a window of tokens at least, or
    from all that there are before it.

    Parameters
    ----------
    tokens : ndarray
        Token ids of the text.
    length : int
        Tokens of a window.

    Examples
    --------
    >>> for text in strided_windows(np.arange(9), 4):
    ...     print(text.tokens, text.context)
    [0, 1, 2, 3] 0
    [2, 3, 4, 5] 2
    [4, 5, 6, 7] 2
    [6, 7, 8] 2
    """
    stride = max(length // 2, 1)
    starts = range(0, max(len(tokens) - length, 0) + stride, stride)
    overlap = length - stride
    windows = [
        Text(tokens[start : start + length].tolist(), overlap if start else 0) for start in starts
    ]
    return [window for window in windows if len(window.tokens) > window.context]
