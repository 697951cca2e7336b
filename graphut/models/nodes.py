"""The nodes of one side of a batch of sentences: tokens and extra nodes, and their positions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout
from graphut.attention.ragged import starts
from graphut.sentences import NO_TOKEN, token_lengths
from graphut.topology import Topology, token_nodes, with_extra_nodes


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
        data = graph.nodes[side].data
        is_token = data["token"] != NO_TOKEN
        first = data["position"][is_token] == 1
        if graph._batch_num_nodes is None and int(first.sum()) > 1:
            raise ValueError(
                f"the {side} nodes of the graph have lost their sentences, as DGL drops them where "
                "a graph is saved or changed: set_batch_num_nodes and set_batch_num_edges give "
                "them back"
            )
        lengths = token_lengths(graph, side)
        if not torch.equal(lengths + topology.extra_nodes(lengths), graph.batch_num_nodes(side)):
            raise ValueError(
                f"the {side} nodes of the graph are not those of the model's topology "
                f"{str(topology)!r}: make the graph with the model's own sentence_graph"
            )
        return cls(topology, lengths, data["token"][is_token], data["position"])

    def first_states(self, embedded: Tensor) -> Tensor:
        """Return `(num_nodes, d)`: the embeddings of tokens, and first states of extra nodes."""
        return with_extra_nodes(self.topology, embedded, self.lengths)

    def checked_layout(self, layout: EdgeLayout) -> EdgeLayout:
        """Return a layout among the nodes; raise ValueError if a node has no in-edge."""
        if layout.has_empty_rows:
            node = int((layout.in_degrees == 0).nonzero()[0])
            first = starts(layout.dst_lengths)
            number = node - int(first[first <= node].max())
            raise sees_nothing(self.topology, number)
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


def sees_nothing(topology: Topology, node: int) -> ValueError:
    """Return the error for a node of a sentence that has no in-edge."""
    return ValueError(
        f"the topology {str(topology)!r} leaves node {node} of a sentence without a node to see: "
        f"let each see itself, as in '({topology})|window:0'"
    )


def draw_positions(lengths: Tensor, max_offset: int, *, spread: bool) -> Tensor:
    """Draw a position for each of the positions 0, 1, ..., `length` of each sentence.

    So a model meets the positions of longer sentences in training. The drawn positions are whole
    numbers that rise, at most `length + max_offset`. Without `spread` all positions of a sentence
    move by one number, uniform in `0..max_offset` (arXiv 1807.03819, section 3.4). With `spread`
    they are a random subset, in order, of a range of random width and start ("Randomized
    Positional Encodings Boost Length Generalization of Transformers", arXiv 2305.16843, where the
    range is always the whole). Here the logarithm of the width is uniform, and half of the ranges
    start at 0, so that a model also sees neighbours side by side and the first positions, as in
    evaluation.

    `lengths`, `(batch,)` int64, are the last positions of sentences. The result is
    `(batch, longest + 1)` int64; after its own `length` a row goes on one by one.
    """
    position = torch.arange(int(lengths.max()) + 1)
    if not spread:
        return position + torch.randint(max_offset + 1, (len(lengths), 1))
    sizes = lengths[:, None] + 1
    growth = ((sizes + max_offset + 1) / sizes) ** torch.rand(sizes.shape)
    width = (sizes * growth).long().clamp_max(sizes + max_offset)
    start = (torch.rand(sizes.shape) * (sizes + max_offset - width + 1)).long()
    start = start * torch.randint(2, sizes.shape)
    subset = _random_subsets(width, sizes)
    last = subset.gather(1, lengths[:, None])
    return start + torch.where(position < sizes, subset, last + position - lengths[:, None])


def restart_positions(token: Tensor, first: Tensor, separator: int) -> Tensor:
    """Count tokens 1, 2, ... from the start of a sentence, and from 1 again after a separator.

    So symbols that belong together, each in its part of a sequence, get the same position
    ("Position Coupling", arXiv 2405.20671).

    `token`, `(num_tokens,)` int64, are the tokens of all sentences; `first`, of the same shape, is
    for each the index of the token of its sentence that counts as 1.
    """
    index = torch.arange(len(token), device=token.device)
    after = torch.where(token == separator, index + 1, 0).roll(1)
    after[0] = 0
    return index + 1 - first.maximum(after).cummax(0).values


def _random_subsets(width: Tensor, sizes: Tensor) -> Tensor:
    """Draw in each row a subset of `0..width - 1` of a size, in order, with zeros after it."""
    number = torch.arange(int(width.max()))
    key = torch.rand(len(width), len(number)).masked_fill(number >= width, 2.0)
    chosen = key.argsort(1).argsort(1) < sizes
    row, value = chosen.nonzero(as_tuple=True)
    subsets = torch.zeros(len(width), int(sizes.max()), dtype=torch.int64)
    subsets[row, chosen.cumsum(1)[row, value] - 1] = value
    return subsets
