"""Nodes of source or target sentences: tokens, extra nodes, and their positions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.ragged import starts
from graphut.attention.tracing import outside_inference
from graphut.sentences import DECODE, ENCODE, NO_TOKEN, causal_layout
from graphut.topology import Topology, node_positions, token_nodes, with_extra_nodes

_LONGEST_RUN = 32  # adjacent positions in training


@dataclass(frozen=True, eq=False)
class SentenceNodes:
    """The nodes of all sources, or of all targets, of a batch, and the edges between them.

    The tensors are on the CPU. A model uploads what it needs to its device in one transfer.
    """

    topology: Topology
    lengths: Tensor  # (batch,) int64, the number of tokens of each sentence
    token: Tensor  # (num_tokens,) int64
    position: Tensor  # (num_nodes,), from `graphut.topology.node_positions`
    layout: EdgeLayout

    @classmethod
    def from_tokens(
        cls, token: Tensor, lengths: Tensor, topology: Topology, *, causal: bool = False
    ) -> SentenceNodes:
        """Return the nodes of sentences, given all their tokens in one tensor and their lengths.

        With `causal`, raise `ValueError` if the topology is not causal.
        """
        layout, position = kept_for_small_batches(_edges, (topology, causal), lengths)
        return cls(topology, lengths, token, position, layout)

    @classmethod
    def from_graph(cls, graph: DGLGraph, side: str, topology: Topology) -> SentenceNodes:
        """Return the nodes of type `side`, "source" or "target", of a graph from `sentence_graph`.

        Raise `ValueError` if the number of nodes of a sentence does not fit the topology.
        """
        data = graph.nodes[side].data
        is_token = data["token"] != NO_TOKEN
        first = data["position"][is_token] == 1
        if graph._batch_num_nodes is None and int(first.sum()) > 1:
            raise ValueError(
                f"the {side} nodes of the graph are no longer divided into sentences, because DGL "
                "drops the batch when a graph is saved or changed: restore it with "
                "set_batch_num_nodes and set_batch_num_edges"
            )
        nodes = graph.batch_num_nodes(side)
        lengths = torch.repeat_interleave(nodes)[is_token].bincount(minlength=len(nodes))
        if not torch.equal(lengths + topology.extra_nodes(lengths), nodes):
            raise ValueError(
                f"the {side} nodes of the graph do not fit the model's topology "
                f"{str(topology)!r}: make the graph with the model's own sentence_graph"
            )
        layout = as_layout(graph, (ENCODE if side == "source" else DECODE)[1])
        _check_in_edges(topology, layout)
        return cls(topology, lengths, data["token"][is_token], data["position"], layout)

    def first_states(self, embedded: Tensor) -> Tensor:
        """Return first states `(num_nodes, d)`: `embedded` for tokens, means for extra nodes."""
        if len(self.position) == len(self.token):
            return embedded
        return with_extra_nodes(self.topology, embedded, self.lengths)

    def select_tokens(self, rows: Tensor) -> Tensor:
        """Drop the rows of extra nodes (not tokens) from `rows`, which has one row per node."""
        if len(self.position) == len(self.token):
            return rows
        return rows[token_nodes(self.topology, self.lengths).to(rows.device)]

    def redrawn(self, position: Tensor, drawn: Tensor) -> Tensor:
        """Return the `position` of each node, `(num_nodes,)`, replaced by a random position.

        `drawn` is the result of `draw_positions`. A node of sentence `i` with position `p` gets the
        position `drawn[i, p]`; for a fractional `p`, it is interpolated linearly.
        """
        row, table = self.expand(torch.arange(len(drawn))), drawn.to(position.device)
        below = position.long().clamp(0, drawn.shape[1] - 2)
        low, high = table[row, below], table[row, below + 1]
        return low + (position - below) * (high - low)

    def expand(self, by_sentence: Tensor) -> Tensor:
        """Repeat the value of each sentence, `(batch,)`, for its nodes; return `(num_nodes,)`."""
        nodes = self.lengths + self.topology.extra_nodes(self.lengths)
        return torch.repeat_interleave(by_sentence, nodes).to(self.position.device)


def _edges(settings: tuple[Topology, bool], lengths: Tensor) -> tuple[EdgeLayout, Tensor]:
    """Return the edges and the positions of the nodes of sentences."""
    topology, causal = settings
    layout = causal_layout(topology, lengths) if causal else topology.layout(lengths)
    _check_in_edges(topology, layout)
    return layout, node_positions(topology, lengths)


def kept_for_small_batches(make: Callable[..., Any], settings: Hashable, *lengths: Tensor) -> Any:
    """Return `make(settings, *lengths)`; keep small layouts."""
    sizes = [tuple(each.tolist()) for each in lengths]
    is_small = sum(map(sum, sizes)) <= 1024
    return _make_once(make, settings, *sizes) if is_small else make(settings, *lengths)


@lru_cache(maxsize=64)
def _make_once(make: Callable[..., Any], settings: Hashable, *sizes: tuple[int, ...]) -> Any:
    with outside_inference():
        return make(settings, *map(torch.tensor, sizes))


def _check_in_edges(topology: Topology, layout: EdgeLayout) -> None:
    if layout.has_empty_rows:
        node, first = int((layout.in_degrees == 0).nonzero()[0]), starts(layout.dst_lengths)
        raise no_in_edge(topology, node - int(first[first <= node].max()))


def no_in_edge(topology: Topology, node: int) -> ValueError:
    """Return a `ValueError` about node number `node` of a sentence, which has no in-edge."""
    return ValueError(
        f"in the topology {str(topology)!r}, node {node} of a sentence has no in-edge: add "
        f"self-loops, as in '({topology})|window:0'"
    )


def draw_positions(lengths: Tensor, max_offset: int, *, spread: bool) -> Tensor:
    """Return random values `(batch, longest + 1)` that replace the positions of each sentence.

    They increase up to `length + max_offset`. Without `spread`, all positions of a sentence get one
    offset (arXiv 1807.03819, section 3.4). With `spread`, they are a random subset of a range
    (arXiv 2305.16843), which in the paper is always `0..length + max_offset`. Here its width is
    log-uniform, half of the ranges start at 0, and the subset consists of runs of adjacent numbers
    with a log-uniform length of at most 32, so that training also covers adjacent and small
    positions beside distant ones, as in evaluation.
    """
    position = torch.arange(int(lengths.max()) + 1)
    if not spread:
        return position + torch.randint(max_offset + 1, (len(lengths), 1))
    sizes = lengths[:, None] + 1
    growth = ((sizes + max_offset + 1) / sizes) ** torch.rand(sizes.shape)
    width = (sizes * growth).long().clamp_max(sizes + max_offset)
    start = (torch.rand(sizes.shape) * (sizes + max_offset - width + 1)).long()
    start = start * torch.randint(2, sizes.shape)
    number = torch.arange(int(width.max()))
    run = (_LONGEST_RUN ** torch.rand(sizes.shape)).long()
    key = torch.rand(len(width), len(number)).gather(1, number // run)  # equal within a run
    key = key.masked_fill(number >= width, 2.0)
    # sizes[i] integers below width[i], in random runs
    chosen = key.argsort(dim=1, stable=True).argsort(1) < sizes
    subset = torch.where(chosen, number, len(number)).sort(1).values[:, : len(position)]
    last = subset.gather(1, lengths[:, None])
    return start + torch.where(position < sizes, subset, last + position - lengths[:, None])


def restart_positions(token: Tensor, first: Tensor, separator: int) -> Tensor:
    """Return positions that start at 1 in each sentence and again after each separator.

    This is "Position Coupling" (arXiv 2405.20671). `first` has, for each of the tokens, the index
    of the token of its sentence that has position 1.
    """
    index = torch.arange(len(token), device=token.device)
    after = torch.where(token == separator, index + 1, 0).roll(1)
    after[0] = 0
    return index + 1 - first.maximum(after).cummax(0).values
