"""Strided and fixed attention of Sparse Transformers."""

from __future__ import annotations

from dataclasses import dataclass

from graphut._torch import Tensor, torch
from graphut.attention.ragged import ragged_arange
from graphut.topology.base import Topology


@dataclass(frozen=True)
class Strided(Topology, minimum={"stride": 1}):
    """Strided attention: `j -> i` if `0 <= i - j <= stride` or `stride` divides `i - j >= 0`.

    The patterns of both heads of strided attention (Sparse Transformers, arXiv 1904.10509, section
    4.3) in one causal graph of about `n * stride + n^2 / (2 * stride)` edges.

    Examples
    --------
    >>> Strided(2).mask(6)[5].int()  # the sources of destination 5
    tensor([0, 1, 0, 1, 1, 1], dtype=torch.int32)
    """

    name = "strided"
    stable = True
    _known_causal = True

    stride: int

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return edges from sources 2, 3, ... strides back, then from all up to one stride back."""
        strides = dst // self.stride
        far = (strides - 1).clamp(min=0)
        first = (dst - self.stride).clamp(min=0)
        row, position = ragged_arange(far + dst + 1 - first)
        distant = dst[row] - (strides[row] - position) * self.stride
        near = first[row] + position - far[row]
        return row, torch.where(position < far[row], distant, near)


@dataclass(frozen=True)
class Fixed(Topology, minimum={"block": 1, "summary": 1}):
    """Fixed attention: attend to earlier tokens of the block and to the ends of earlier blocks.

    A block has `block` tokens (`l` in the paper), and all later tokens attend to the last `summary`
    tokens of a block (`c` in the paper). The patterns of both heads of fixed attention (Sparse
    Transformers, arXiv 1904.10509, section 4.3) in one causal graph of about
    `n * l / 2 + c * n^2 / (2l)` edges.

    Examples
    --------
    >>> Fixed(block=3, summary=1).mask(7)[6].int()  # the sources of destination 6
    tensor([0, 0, 1, 0, 0, 1, 1], dtype=torch.int32)
    """

    name = "fixed"
    stable = True
    _known_causal = True

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
        """Return edges from the summaries of earlier blocks, then from tokens of the same block."""
        blocks = dst // self.block
        summaries, first = blocks * self.summary, blocks * self.block
        row, position = ragged_arange(summaries + dst + 1 - first)
        block_end = (position // self.summary + 1) * self.block
        earlier = block_end - self.summary + position % self.summary
        in_block = first[row] + position - summaries[row]
        return row, torch.where(position < summaries[row], earlier, in_block)
