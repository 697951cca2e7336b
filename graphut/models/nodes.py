"""The nodes of one side of a batch of sentences: tokens, and extra nodes of the topology."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout
from graphut.sentences import NO_TOKEN, token_lengths
from graphut.topology import Topology, token_nodes, with_extra_nodes
from graphut.topology.batch import starts


@dataclass(frozen=True, eq=False)
class SentenceNodes:
    """The tokens of all sources or targets, and the extra nodes of their topology.

    They stay where their graph is, on the CPU: what a model reads there goes to its device at once.
    """

    topology: Topology  # who attends to whom on this side
    lengths: Tensor  # (batch,) int64 on the CPU, tokens of each sentence
    token: Tensor  # (num_tokens,) int64
    position: Tensor  # (num_nodes,)

    @classmethod
    def from_graph(cls, graph: DGLGraph, side: str, topology: Topology) -> SentenceNodes:
        """Return the nodes of type `side` of a graph from `sentence_graph`.

        ValueError if they are not those of the topology.
        """
        lengths = token_lengths(graph, side)
        if not torch.equal(lengths + topology.extra_nodes(lengths), graph.batch_num_nodes(side)):
            raise ValueError(
                f"the {side} nodes of the graph are not those of the model's topology "
                f"{str(topology)!r}: make the graph with the model's own sentence_graph"
            )
        data = graph.nodes[side].data
        token = data["token"][data["token"] != NO_TOKEN]
        return cls(topology, lengths, token, data["position"])

    def first_states(self, embedded: Tensor) -> Tensor:
        """Return `(num_nodes, d)`: the embeddings of tokens, and first states of extra nodes."""
        return with_extra_nodes(self.topology, embedded, self.lengths)

    def checked_layout(self, layout: EdgeLayout) -> EdgeLayout:
        """Return a layout among the nodes; raise ValueError if a node has no in-edge."""
        if layout.has_empty_rows:
            node = int((layout.in_degrees == 0).nonzero()[0])
            first = starts(layout.dst_lengths)
            number = node - int(first[first <= node].max())
            raise ValueError(
                f"the topology {str(self.topology)!r} leaves node {number} of a sentence without "
                f"a node to see: let each see itself, as in '({self.topology})|window:0'"
            )
        return layout

    def select_tokens(self, rows: Tensor) -> Tensor:
        """Return the rows of the tokens, given a row for each node."""
        if not self.topology.has_extra_nodes:
            return rows
        return rows[token_nodes(self.topology, self.lengths).to(rows.device)]

    def positions(self, drawn: Tensor | None, position: Tensor | None = None) -> Tensor:
        """Return the position of each node, `(num_nodes,)`.

        That is `self.position`, or `position` in its place. `drawn`, from `draw_positions`, says
        what replaces the positions 0, 1, 2, ... of each sentence; others are interpolated.
        """
        position = self.position if position is None else position
        if drawn is None:
            return position
        row, table = self.expand(torch.arange(len(drawn))), drawn.to(position.device)
        below = position.long().clamp(0, drawn.shape[1] - 2)
        low, high = table[row, below], table[row, below + 1]
        return low + (position - below) * (high - low)

    def expand(self, by_sentence: Tensor) -> Tensor:
        """Repeat a value of each sentence, `(batch,)`, for all of its nodes, `(num_nodes,)`."""
        nodes = self.lengths + self.topology.extra_nodes(self.lengths)
        return torch.repeat_interleave(by_sentence, nodes).to(self.position.device)
