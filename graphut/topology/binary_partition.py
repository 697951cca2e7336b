"""Binary partition: a binary tree of spans of tokens."""

from dataclasses import dataclass

from graphut._torch import Tensor, torch
from graphut.attention.ragged import ragged_arange
from graphut.topology.base import Topology
from graphut.topology.batch import Interval


@dataclass(frozen=True)
class BinaryPartition(Topology, minimum={"spans": 1}):
    """Binary partition: attend to nearby tokens directly and to distant ones through longer spans.

    The binary partition transformer (arXiv 1911.04070). The spans of level `l` are the blocks of
    `2^l` tokens. The last block may be shorter; a block without a second half is identical to its
    first half. There are `n - 1` spans in total. A span attends to its tokens, and its first state
    is their mean. A token attends to itself and, on each side and level, to the next `spans` spans
    (`k` in the paper), without gaps or overlaps: if half of a span is already covered, only the
    other half is used. There are at most `n * (2 * spans + 1) * (log2(n) + 1)` edges, and the
    diameter is two. In `causal()` a token attends to the spans that end before it.

    Examples
    --------
    >>> BinaryPartition(1).mask(4)[0].int()  # tokens 0 and 1, and the span of tokens 2 and 3
    tensor([1, 1, 0, 0, 0, 1, 0], dtype=torch.int32)
    """

    name = "binary_partition"

    spans: int

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        token = (dst < n_dst).nonzero()[:, 0]
        span = (dst >= n_dst).nonzero()[:, 0]
        lo, hi = self.extra_spans(dst[span] - n_dst[span], n_dst[span])
        row, position = ragged_arange(hi - lo)
        rows, sources = [token, span[row]], [dst[token], lo[row] + position]
        for side in (-1, 1):
            row, source = self._context(dst[token], n_dst[token], side)
            rows.append(token[row])
            sources.append(source)
        return torch.cat(rows), torch.cat(sources)

    def extra_nodes(self, n: Tensor) -> Tensor:
        return n - 1

    def extra_spans(self, extra: Tensor, n: Tensor) -> Interval:
        level = torch.ones_like(extra)
        for higher in range(2, _levels(n)):
            level += extra >= _first_span(n, torch.tensor(higher))
        lo = (extra - _first_span(n, level)) << level
        return lo, (lo + (1 << level)).minimum(n)

    def _context(self, token: Tensor, n: Tensor, side: int) -> tuple[Tensor, Tensor]:
        """Return the edges into each token from the nodes before (`side=-1`) or after (`1`) it."""
        row = torch.arange(len(token))
        rows, sources = [], []
        block = token + side
        halved = torch.zeros_like(token, dtype=torch.bool)  # is the near half of the block covered?
        for level in range(_levels(n)):
            for _ in range(min(self.spans, int(n.max()))):
                # Of a halved block only the far half is left, which is a block of the level below.
                seen_level = level - halved.long()
                seen = torch.where(halved, 2 * block + (side + 1) // 2, block)
                inside = (seen >= 0) & (seen << seen_level < n)
                rows.append(row[inside])
                sources.append(_node(seen_level[inside], seen[inside], n[inside]))
                block, halved = block + side, torch.zeros_like(halved)
            halved = block % 2 == (side + 1) // 2
            block = block >> 1
        return torch.cat(rows), torch.cat(sources)


def _levels(n: Tensor) -> int:
    """Return the number of levels of the longest sentence, including the level of the tokens."""
    return max(int(n.max()) - 1, 0).bit_length() + 1 if n.numel() else 0


def _first_span(n: Tensor, level: Tensor) -> Tensor:
    """Return the index of a level's first span: the number of spans on levels 1 to `level - 1`."""
    return n - ((n - 1) >> (level - 1)) - 1


def _node(level: Tensor, block: Tensor, n: Tensor) -> Tensor:
    """Return the node of each block: a token on level 0, an extra node on higher levels."""
    for _ in range(int(level.max()) if level.numel() else 0):
        no_second_half = (level > 0) & ((2 * block + 1) << (level - 1).clamp(min=0) >= n)
        level, block = level - no_second_half.long(), block << no_second_half.long()
    return torch.where(level == 0, block, n + _first_span(n, level.clamp(min=1)) + block)
