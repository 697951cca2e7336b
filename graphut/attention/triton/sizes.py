"""Tile sizes of the kernels, which depend on head size and dtype alone.

So no kernel is compiled or tuned in the middle of training. All products run on tensor cores.
A float32 product is the sum of three TF32 products, which is exact to about 1e-6 and 5 times as
fast as a float32 product on the ordinary units (measured on an H200).
"""

from functools import cache
from typing import Any, NamedTuple

import torch

# Shared memory holds no tile of wider heads.
WIDEST = 512
# An option of each launch: fuse multiplications and additions. Triton 3.9 warns if it is not given.
FUSED = {"enable_fp_fusion": True}


class TileSizes(NamedTuple):
    """The tile sizes and the launch options of a kernel, or constants."""

    block_m: Any  # rows; 1 in kernels for single rows, which do not use tensor cores
    block_n: Any  # sources, edges, or columns of a product
    num_warps: Any  # of a program
    num_stages: Any  # tiles in flight
    precision: Any = "tf32x3"  # of float32 products
    block_k: Any = 0  # columns of the left factor, where a product has many
    in_pieces: Any = False  # whether programs compute pieces of long rows


# By the features of a head. Up to 64 features these were the fastest of 30 on an H200.
FLOAT32 = {
    16: TileSizes(64, 32, 4, 2),
    32: TileSizes(64, 32, 4, 2),
    64: TileSizes(32, 64, 4, 2),
    128: TileSizes(32, 16, 8, 2),
    256: TileSizes(16, 16, 8, 1),
    512: TileSizes(16, 16, 8, 1),
}
HALF = {
    16: TileSizes(64, 128, 4, 2),
    32: TileSizes(64, 128, 4, 2),
    64: TileSizes(64, 128, 4, 2),
    128: TileSizes(64, 64, 8, 2),
    256: TileSizes(32, 32, 8, 1),
    512: TileSizes(16, 16, 8, 1),
}


def tile_sizes(width: int, dtype: torch.dtype, *, by_edge: bool = False) -> TileSizes:
    """Return the tile sizes for heads of `width` features, a power of two.

    Tiles are smaller with `by_edge`, for calls with a bias or dropout, which need more registers.
    """
    sizes = (FLOAT32 if dtype == torch.float32 else HALF)[width]
    return sizes._replace(block_n=min(sizes.block_n, 32)) if by_edge else sizes


@cache
def row_sizes(width: int) -> TileSizes:
    """Return the sizes of programs for single rows, for heads with `width` features."""
    return TileSizes(1, max(4, min(32, 2048 // width)), 2 if width <= 64 else 4, 3)
