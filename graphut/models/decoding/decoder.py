"""The interface of decoders to a search, and what the cached and the plain decoder share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from graphut.attention import EdgeLayout, IntervalLayout, layout_from_edges
from graphut.nn import AdaptiveRecurrence
from graphut.topology import Topology
from graphut.topology.batch import starts
from graphut.topology.cross import check_all_see


class TokenDecoder(Protocol):
    """A batch of hypotheses, each of which grows by one token at a time."""

    def advance(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Extend hypotheses by a token each.

        Parameters
        ----------
        parents : Tensor
            `(B,)` int64, which of the hypotheses before each new one extends; at first, which
            source sentence it answers.
        tokens : Tensor
            `(B,)` int64, the tokens to add.

        Returns
        -------
        tuple of Tensor
            `(B, vocabulary)` logits of the next token, and `(B,)` ponder steps of the added one.
        """


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
        Of cross-attention, from `graphut.topology.cross_topology`.
    """

    feat: Tensor
    lengths: Tensor
    topology: Topology

    def edges_to(self, sentences: Tensor, position: int) -> EdgeLayout:
        """Return the edges from the source into one target token of each hypothesis.

        Parameters
        ----------
        sentences : Tensor
            `(B,)` on the CPU, the sentence that each hypothesis answers.
        position : int
            Position of the target token, from 0.

        Raises
        ------
        ValueError
            If a target token would see no source token.
        """
        n_src, first = self.lengths[sentences], starts(self.lengths)[sentences]
        dst = torch.full_like(n_src, position)
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


class LiveHypotheses:
    """A batch of equally long rows of ids, one id longer with each `extend`.

    Attributes
    ----------
    ids : Tensor
        `(B, length)` int64 on the CPU.
    sentences : Tensor
        `(B,)` int64 on the CPU, the sentence that each row belongs to.
    """

    def __init__(self) -> None:
        self.ids = torch.zeros(0, 0, dtype=torch.int64)
        self.sentences = torch.zeros(0, dtype=torch.int64)

    @property
    def length(self) -> int:
        """The number of ids in a row."""
        return self.ids.shape[1]

    def extend(self, parents: Tensor, ids: Tensor) -> None:
        """Replace the rows by those at `parents`, each an id longer; the first are sentences."""
        if self.length == 0:
            self.ids, self.sentences = ids[:, None], parents
        else:
            self.ids = torch.cat([self.ids[parents], ids[:, None]], 1)
            self.sentences = self.sentences[parents]


@dataclass(eq=False)
class RecurrenceDecoder:
    """The parts of a decoder that runs an `AdaptiveRecurrence`.

    Parameters
    ----------
    recurrence : AdaptiveRecurrence
        The decoder.
    source : EncodedSource or None
        The source of cross-attention, if there is any.
    topology : Topology
        Of self-attention, causal.
    embed : callable
        From `(B,)` tokens to `(B, d)` first states.
    predict : callable
        From `(B, d)` output states to logits.
    """

    recurrence: AdaptiveRecurrence
    source: EncodedSource | None
    topology: Topology
    embed: Callable[[Tensor], Tensor]
    predict: Callable[[Tensor], Tensor]
    hypotheses: LiveHypotheses = field(default_factory=LiveHypotheses, init=False)
