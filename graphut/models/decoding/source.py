"""The source side of decoding: who may look at which encoded token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphut.attention import EdgeLayout, IntervalLayout, layout_from_edges
from graphut.topology import Topology
from graphut.topology.cross import check_all_see


@dataclass(frozen=True, eq=False)
class EncodedSource:
    """The encoder's output for a batch of sentences.

    Parameters
    ----------
    feat : Tensor
        `(N_src, d)`
    lengths : Tensor
        `(batch,)` int64 on the CPU, tokens of each sentence.
    topology : Topology
        Of cross-attention, from `graphut.topology.cross.cross_topology`.
    """

    feat: Tensor
    lengths: Tensor
    topology: Topology

    def edges_to(self, sentences: Tensor, place: int) -> EdgeLayout:
        """Edges from the source into one target token of each hypothesis.

        Parameters
        ----------
        sentences : Tensor
            `(B,)` on the CPU, the sentence that each hypothesis answers.
        place : int
            Position of the target token, from 0.

        Raises
        ------
        ValueError
            If one would see no source token.
        """
        n_src = self.lengths[sentences]
        first = (self.lengths.cumsum(0) - self.lengths)[sentences]
        dst = torch.full_like(n_src, place)
        batch: dict[str, Any] = {"dst_lengths": torch.ones_like(n_src), "src_lengths": self.lengths}
        num_src = int(self.lengths.sum())
        run = self.topology.clipped_interval(dst, dst + 1, n_src)
        if run is not None:
            lo, hi = run[0] + first, run[1] + first
            layout: EdgeLayout = IntervalLayout(lo=lo, hi=hi, num_src=num_src, **batch)
        else:
            row, source = self.topology.sorted_in_edges(dst, dst + 1, n_src)
            layout = layout_from_edges(
                source + first[row], row, num_src=num_src, num_dst=len(dst), **batch
            )
        check_all_see(self.topology, layout, dst)
        return layout
