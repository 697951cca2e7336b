"""Strided and fixed attention of Sparse Transformers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphut.attention.ragged import ragged_arange
from graphut.topology.base import Topology
from graphut.topology.window import capped_sum


@dataclass(frozen=True)
class Strided(Topology, minimum={"stride": 1}):
    """Strided attention: `j -> i` if `0 <= i - j <= stride` or `stride` divides `i - j >= 0`.

    The patterns of both heads of strided attention (Sparse Transformers, arXiv 1904.10509, section
    4.3) in one causal graph of about `n * stride + n^2 / (2 * stride)` edges. For a sentence of at
    most `stride + 1` tokens it equals `Causal()`.

    Parameters
    ----------
    stride : int
        Number of preceding tokens without gaps, and distance between the others; at least 1.

    Examples
    --------
    >>> Strided(2).mask(6).int()
    tensor([[1, 0, 0, 0, 0, 0],
            [1, 1, 0, 0, 0, 0],
            [1, 1, 1, 0, 0, 0],
            [0, 1, 1, 1, 0, 0],
            [1, 0, 1, 1, 1, 0],
            [0, 1, 0, 1, 1, 1]], dtype=torch.int32)
    """

    name = "strided"
    stable = True

    stride: int

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sources at multiples of the stride, and then the preceding tokens."""
        # First the tokens at a distance of at least two strides, from far to near, then all up to
        # `i`.
        strides = dst // self.stride
        far = (strides - 1).clamp(min=0)
        first = (dst - self.stride).clamp(min=0)
        row, position = ragged_arange(far + dst + 1 - first)
        distant = dst[row] - (strides[row] - position) * self.stride
        near = first[row] + position - far[row]
        return row, torch.where(position < far[row], distant, near)

    def _count_edges(self, n: int) -> int:
        strides = (n - 1) // self.stride
        far = strides * (strides + 1) // 2 - 1 if strides else 0
        return n + capped_sum(n, self.stride) + n * max(strides - 1, 0) - self.stride * far


@dataclass(frozen=True)
class Fixed(Topology, minimum={"block": 1, "summary": 1}):
    """Fixed attention: attend to earlier tokens of the block and to the ends of earlier blocks.

    The patterns of both heads of fixed attention (Sparse Transformers, arXiv 1904.10509, section
    4.3) in one causal graph of about `n * l / 2 + c * n^2 / (2l)` edges, for blocks of `l` tokens
    of which the last `c` are summaries. For a sentence of at most one block it equals `Causal()`.

    Parameters
    ----------
    block : int
        Number of tokens in a block, at least 1; `l` in the paper.
    summary : int
        Number of tokens at the end of a block that all later tokens attend to, 1 to `block`; `c`
        in the paper.

    Examples
    --------
    >>> Fixed(block=3, summary=1).mask(7).int()
    tensor([[1, 0, 0, 0, 0, 0, 0],
            [1, 1, 0, 0, 0, 0, 0],
            [1, 1, 1, 0, 0, 0, 0],
            [0, 0, 1, 1, 0, 0, 0],
            [0, 0, 1, 1, 1, 0, 0],
            [0, 0, 1, 1, 1, 1, 0],
            [0, 0, 1, 0, 0, 1, 1]], dtype=torch.int32)
    """

    name = "fixed"
    stable = True

    block: int
    summary: int

    def __post_init__(self) -> None:
        """Check the fields, and that the summary fits into a block."""
        super().__post_init__()
        if self.summary > self.block:
            raise ValueError(
                f"fixed: summary must be at most block = {self.block}, got {self.summary}"
            )

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return the summaries of earlier blocks, and then the tokens of the same block."""
        blocks = dst // self.block
        summaries, first = blocks * self.summary, blocks * self.block
        row, position = ragged_arange(summaries + dst + 1 - first)
        block_end = (position // self.summary + 1) * self.block
        earlier = block_end - self.summary + position % self.summary
        own = first[row] + position - summaries[row]
        return row, torch.where(position < summaries[row], earlier, own)

    def _count_edges(self, n: int) -> int:
        blocks, rest = divmod(n, self.block)
        own = blocks * self.block * (self.block + 1) // 2 + rest * (rest + 1) // 2
        return own + self.summary * (self.block * blocks * (blocks - 1) // 2 + rest * blocks)
