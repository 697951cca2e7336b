"""Sizes of tiles, by head size and dtype alone: no kernel is compiled in the middle of training.

Chosen for Hopper from registers and shared memory: float32 products run on the ordinary units,
which want small tiles, 16-bit ones on the tensor cores.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

# Shared memory holds no tile of wider heads.
WIDEST = 512


@dataclass(frozen=True)
class TileSizes:
    """The tile of an interval kernel."""

    block_m: int  # rows
    block_n: int  # sources
    num_warps: int  # of a program
    num_stages: int  # tiles in flight


def tile_sizes(width: int, dtype: torch.dtype, *, by_edge: bool = False) -> TileSizes:
    """Return the tile for heads of `width` features, a power of two.

    With numbers of single edges, a bias or dropout, a program needs more registers.

    Examples
    --------
    >>> import torch
    >>> tile_sizes(64, torch.bfloat16)
    TileSizes(block_m=64, block_n=64, num_warps=4, num_stages=3)
    """
    if dtype == torch.float32:
        rows, stages = (32, 2) if width <= 128 else (16, 1)
        return TileSizes(rows, 16, 4 if width < 64 else 8, stages)
    if width <= 128:
        warps, stages = (4, 3) if width <= 64 else (8, 2)
        return TileSizes(64, 32 if by_edge else 64, warps, stages)
    side = 32 if width <= 256 else 16
    return TileSizes(side, side, 8, 1)


def edges_at_once(width: int) -> int:
    """Return how many gathered rows of `width` features a program of a row kernel holds."""
    return max(4, min(32, 2048 // width))


def row_warps(width: int) -> int:
    """Return the number of warps of a program of a row kernel."""
    return 2 if width <= 64 else 4
