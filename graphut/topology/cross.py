"""Cross graphs: the source tokens that each target token attends to."""

from typing import Any

import torch
from torch import Tensor

from graphut.attention.layout import EdgeLayout, layout_from_edges
from graphut.attention.ragged import positions, starts
from graphut.topology.base import Topology
from graphut.topology.batch import Lengths, as_lengths
from graphut.topology.extra_nodes import token_nodes
from graphut.topology.parse import parse


def cross_layout(
    cross: Topology | str,
    lengths: Lengths,
    src_lengths: Lengths,
    *,
    decoder: Topology,
    encoder: Topology,
) -> EdgeLayout:
    """Return the layout of cross-attention, from nodes of the encoder to nodes of the decoder.

    Tokens have the edges of `cross_rows`; extra nodes have none.
    """
    lengths, src_lengths = as_lengths(lengths), as_lengths(src_lengths, "src_lengths")
    sentence = torch.repeat_interleave(lengths)
    layout = cross_rows(
        parse(cross),
        positions(lengths),
        lengths[sentence],
        src_lengths[sentence],
        starts(src_lengths)[sentence],
        num_src=int(src_lengths.sum()),
        dst_lengths=lengths,
        src_lengths=src_lengths,
    )
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


def cross_rows(
    cross: Topology, dst: Tensor, n_dst: Tensor, n_src: Tensor, first: Tensor, **batch: Any
) -> EdgeLayout:
    """Return the layout of cross-attention into the target tokens at the positions `dst`.

    A token beyond the end of the source has the edges of the token at its last position. The
    arguments are those of `Topology.layout_of_rows`. Raise `ValueError` for a token without edges.
    """
    if cross.has_extra_nodes:
        raise ValueError(
            f"{str(cross)!r} has extra nodes, but cross-attention connects only tokens"
        )
    layout = cross.layout_of_rows(dst.minimum(n_src - 1), n_dst, n_src, first, **batch)
    if layout.has_empty_rows:
        row = int((layout.in_degrees == 0).nonzero()[0])
        raise ValueError(
            f"the cross topology {str(cross)!r} gives token {int(dst[row])} of a target "
            "no source token to attend to: add one, for example '...|window:0'"
        )
    return layout
