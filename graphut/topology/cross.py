"""Cross graphs: the source tokens that each target token attends to."""

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
    """Wrapper that adds the edges from the last source token that `cross_topology` describes."""

    inner: Topology

    def __post_init__(self) -> None: ...  # the field is no integer

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
    """Return a cross topology that also works for targets longer than their sources.

    A target token beyond the end of the source that would have no in-edges, for example outside a
    window, attends to the last source token. All other target tokens have the edges of `topology`.
    """
    topology = parse(topology)
    if topology.has_extra_nodes:
        raise ValueError(
            f"{str(topology)!r} has extra nodes, but cross-attention connects only tokens"
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
    """Return the layout of cross-attention, from nodes of the encoder to nodes of the decoder.

    Tokens have the edges of `cross_topology(cross)`; extra nodes have none.
    """
    cross = cross_topology(cross)
    lengths, src_lengths = as_lengths(lengths), as_lengths(src_lengths, "src_lengths")
    layout = cross.layout(lengths, src_lengths)
    check_has_sources(cross, layout, positions(lengths))
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


def check_has_sources(cross: Topology, layout: EdgeLayout, positions: Tensor) -> None:
    """Raise `ValueError` if a target token has no source; `positions` are the tokens' positions."""
    if layout.has_empty_rows:
        row = int((layout.in_degrees == 0).nonzero()[0])
        raise ValueError(
            f"the cross topology {str(cross)!r} gives token {int(positions[row])} of a target "
            "no source token to attend to: add one, for example '...|window:0'"
        )
