"""Which examples are held out, where the publishers do not say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar
from zlib import crc32

ItemT = TypeVar("ItemT")


def hold_out(
    items: Iterable[ItemT], held_out: int, text: Callable[[ItemT], bytes]
) -> tuple[list[ItemT], list[ItemT]]:
    """Split items by a hash of each, so that it is the same split every time.

    Parameters
    ----------
    items : iterable
        What is to be split.
    held_out : int
        How many are to be held out.
    text : callable
        What is hashed of an item.

    Returns
    -------
    rest, held_out : list
        Both in the order of the hash.

    Raises
    ------
    ValueError
        If nothing would be left.

    Examples
    --------
    >>> hold_out(["one", "two", "three"], 1, str.encode)
    (['three', 'one'], ['two'])
    """
    ranked = sorted(items, key=lambda item: (crc32(text(item)), text(item)))
    if held_out >= len(ranked):
        raise ValueError(f"held_out must be less than {len(ranked)}, got {held_out}")
    return ranked[held_out:], ranked[:held_out]
