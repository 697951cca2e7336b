"""The strided and the fixed attention of Sparse Transformers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphut.attention.ragged import ragged_arange
from graphut.topology.base import Topology
from graphut.topology.window import capped_sum


@dataclass(frozen=True)
class Strided(Topology, minimum={"stride": 1}):
    """Strided attention: `i` sees `j <= i` where `i - j <= stride`, or `stride` divides `i - j`.

    The patterns of both heads of strided attention (Sparse Transformers, arXiv 1904.10509,
    section 4.3) in one causal graph of about `n * stride + n^2 / (2 * stride)` edges. A sentence of
    at most `stride + 1` tokens gets the whole causal graph.

    Parameters
    ----------
    stride : int
        Number of earlier tokens seen without gaps, and distance of the others; at least 1.

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
        """Return the earlier tokens at multiples of the stride, and then the nearest ones."""
        # First the tokens at two strides or more, from far to near, then the rest up to `i`.
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
    """Fixed attention: `i` sees its block up to itself, and the last tokens of earlier blocks.

    The patterns of both heads of fixed attention (Sparse Transformers, arXiv 1904.10509, section
    4.3) in one causal graph of about `n * l / 2 + c * n^2 / (2l)` edges for blocks of `l`, the last
    `c` of which are summaries. A sentence of at most a block gets the whole causal graph.

    Parameters
    ----------
    block : int
        Tokens of a block, at least 1.
    summary : int
        Tokens at the end of a block that all later ones see, 1 to `block`; the paper's `c`.

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
        """Check the fields, and that a summary fits in a block."""
        super().__post_init__()
        if self.summary > self.block:
            raise ValueError(
                f"fixed: summary must be at most the block of {self.block}, got {self.summary}"
            )

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return the summaries of earlier blocks, and then the own block."""
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
