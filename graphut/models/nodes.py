"""One side of a sentence graph as a model reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout
from graphut.sentences import NO_TOKEN, token_lengths
from graphut.topology import Topology, token_nodes, with_extra_nodes


@dataclass(frozen=True, eq=False)
class SentenceNodes:
    """The tokens of all sources or targets, and the extra nodes of their topology.

    Parameters
    ----------
    topology : Topology
        Who attends to whom on this side.
    lengths : Tensor
        `(batch,)` int64 on the CPU, tokens of each sentence.
    token : Tensor
        `(num_tokens,)` int64.
    position : Tensor
        `(num_nodes,)`
    """

    topology: Topology
    lengths: Tensor
    token: Tensor
    position: Tensor

    @classmethod
    def read(
        cls, graph: DGLGraph, side: str, topology: Topology, device: torch.device
    ) -> SentenceNodes:
        """The nodes of type `side` in a graph from `sentence_graph`.

        Raises
        ------
        ValueError
            If they are not those of the topology.

        Examples
        --------
        >>> from graphut.sentences import sentence_graph
        >>> from graphut.topology import Star
        >>> graph = sentence_graph([[5, 3, 4], [2]], encoder="star")
        >>> nodes = SentenceNodes.read(graph, "source", Star(), torch.device("cpu"))
        >>> nodes.first_states(lambda token: token[:, None].double()).flatten()
        tensor([5., 3., 4., 4., 2., 2.], dtype=torch.float64)
        """
        lengths = token_lengths(graph, side)
        if not torch.equal(lengths + topology.extra_nodes(lengths), graph.batch_num_nodes(side)):
            raise ValueError(
                f"the {side} nodes of the graph are not those of the model's topology "
                f"{str(topology)!r}: make the graph with the model's own sentence_graph"
            )
        data = graph.nodes[side].data
        token = data["token"][data["token"] != NO_TOKEN]
        return cls(topology, lengths, token.to(device), data["position"].to(device))

    def first_states(self, embed: Callable[[Tensor], Tensor]) -> Tensor:
        """`(num_nodes, d)`: what `embed` makes of the tokens, and how extra nodes start."""
        return with_extra_nodes(self.topology, embed(self.token), self.lengths)

    def seeing(self, layout: EdgeLayout) -> EdgeLayout:
        """The edges among the nodes, where they are.

        Raises
        ------
        ValueError
            If a node sees none.
        """
        if layout.has_empty_rows:
            node = int((layout.in_degrees == 0).nonzero()[0])
            first = layout.dst_lengths.cumsum(0) - layout.dst_lengths
            place = node - int(first[first <= node].max())
            raise ValueError(
                f"the topology {str(self.topology)!r} leaves node {place} of a sentence without a "
                f"node to see: let each see itself, as in '({self.topology})|window:0'"
            )
        return layout.to(self.position.device)

    def tokens_of(self, rows: Tensor) -> Tensor:
        """The rows of the tokens, out of one a node."""
        if not self.topology.has_extra_nodes:
            return rows
        return rows[token_nodes(self.topology, self.lengths).to(rows.device)]

    def positions(self, drawn: Tensor | None) -> Tensor:
        """`(num_nodes,)`: those of the graph, or what `draw_positions` has made of them."""
        return self.position if drawn is None else self.place(self.position, drawn)

    def since(self, token: int, skipped: int) -> Tensor:
        """`(num_tokens,)`: 1, 2, ... from the start, and again from 1 on after each `token`.

        Parts of a sequence whose symbols belong together so get the same positions
        ("Position Coupling", arXiv 2405.20671). The first `skipped` tokens come before 1.

        Examples
        --------
        >>> from graphut.topology import Complete
        >>> nodes = SentenceNodes(
        ...     Complete(), torch.tensor([4, 2]), torch.tensor([5, 3, 9, 5, 3, 5]), torch.arange(6))
        >>> nodes.since(9, 0)
        tensor([1, 2, 3, 1, 1, 2])
        """
        place = torch.arange(len(self.token), device=self.token.device)
        first = self.of_nodes(self.lengths.cumsum(0) - self.lengths) + skipped
        behind = torch.where(self.token == token, place + 1, 0).roll(1)
        behind[0] = 0
        return place + 1 - first.maximum(behind).cummax(0).values

    def place(self, position: Tensor, drawn: Tensor) -> Tensor:
        """What `draw_positions` has made of positions, `(num_nodes,)`, that may lie between."""
        row, table = self.of_nodes(torch.arange(len(drawn))), drawn.to(position.device)
        below = position.long().clamp(0, drawn.shape[1] - 2)
        low, high = table[row, below], table[row, below + 1]
        return low + (position - below) * (high - low)

    def of_nodes(self, by_sentence: Tensor) -> Tensor:
        """`(num_nodes,)`, a value of each sentence, `(batch,)`, for all of its nodes."""
        nodes = self.lengths + self.topology.extra_nodes(self.lengths)
        return torch.repeat_interleave(by_sentence, nodes).to(self.position.device)
