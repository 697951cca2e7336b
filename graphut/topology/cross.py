"""Cross graphs: which source tokens each target token sees."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphut.attention.layout import EdgeLayout, layout_from_edges
from graphut.attention.ragged import positions
from graphut.topology.algebra import merge
from graphut.topology.base import Topology
from graphut.topology.batch import Interval, Lengths, as_lengths
from graphut.topology.extra_nodes import token_nodes
from graphut.topology.parse import parse


@dataclass(frozen=True)
class _CrossTopology(Topology, named=False):
    """A topology in which tokens beyond the source's end see its last token, if they see none."""

    inner: Topology

    def __post_init__(self) -> None:
        """Allow a field that is no integer."""

    @property
    def stable(self) -> bool:
        return self.inner.stable

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Interval | None:
        interval = self.inner.clipped_interval(dst, n_dst, n_src)
        if interval is None:
            return None
        lo, hi = interval
        no_source = (lo == hi) & (dst >= n_src)
        return torch.where(no_source, n_src - 1, lo), torch.where(no_source, n_src, hi)

    def _ragged_keys(self, dst: Tensor, n_dst: Tensor, n_src: Tensor, width: int) -> Tensor:
        keys = self.inner._edge_keys(dst, n_dst, n_src, width)
        no_source = dst >= n_src
        no_source[keys // width] = False
        row = no_source.nonzero()[:, 0]
        return merge(keys, row * width + n_src[row] - 1)

    def spec(self) -> str:
        return self.inner.spec()


def cross_topology(topology: Topology | str) -> Topology:
    """Return a topology from source to target tokens that also fits targets longer than sources.

    A target token at or beyond the source's end that would see nothing, as beyond the reach of a
    window, sees the last source token; all others see what the topology says. ValueError if the
    topology, or that of the spec string, has extra nodes.

    Examples
    --------
    >>> cross_topology("window:1").mask(5, 2).int()
    tensor([[1, 1],
            [1, 1],
            [0, 1],
            [0, 1],
            [0, 1]], dtype=torch.int32)
    """
    topology = parse(topology)
    if topology.has_extra_nodes:
        raise ValueError(
            f"{str(topology)!r} has nodes that are not tokens: cross-attention is between tokens"
        )
    return topology if isinstance(topology, _CrossTopology) else _CrossTopology(topology)


def cross_layout(
    cross: Topology | str,
    lengths: Lengths,
    src_lengths: Lengths,
    *,
    decoder: Topology,
    encoder: Topology,
) -> EdgeLayout:
    """Return the edges of `cross_topology(cross)`, numbered like the nodes of decoder and encoder.

    The extra nodes of either side have no edges. `lengths` and `src_lengths` are the tokens of each
    target and each source sentence. ValueError if a target token sees no source token.

    Examples
    --------
    >>> from graphut.topology import Causal, Star
    >>> layout = cross_layout("complete", [2], [3], decoder=Causal(), encoder=Star())
    >>> layout.num_src, layout.num_edges
    (4, 6)
    """
    cross = cross_topology(cross)
    lengths, src_lengths = as_lengths(lengths), as_lengths(src_lengths, "src_lengths")
    layout = cross.layout(lengths, src_lengths)
    check_all_see(cross, layout, positions(lengths))
    if not (decoder.has_extra_nodes or encoder.has_extra_nodes):
        return layout
    num_dst = lengths + decoder.extra_nodes(lengths)
    num_src = src_lengths + encoder.extra_nodes(src_lengths)
    row, source, _ = layout.in_edges()
    return layout_from_edges(
        token_nodes(encoder, src_lengths)[source],
        token_nodes(decoder, lengths)[row],
        num_src=int(num_src.sum()),
        num_dst=int(num_dst.sum()),
        src_lengths=num_src,
        dst_lengths=num_dst,
    )


def check_all_see(cross: Topology, layout: EdgeLayout, positions: Tensor) -> None:
    """Raise ValueError if one of the target tokens at these positions sees no source token."""
    if layout.has_empty_rows:
        row = int((layout.in_degrees == 0).nonzero()[0])
        raise ValueError(
            f"the cross topology {str(cross)!r} leaves token {int(positions[row])} of a target "
            "without a source token to see: add one, as in '...|window:0'"
        )
