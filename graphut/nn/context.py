"""The context of a step: all that the active nodes attend to or read from other nodes."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.key_value_memory import KeyValueMemory
from graphut.nn.attention import MultiHeadAttention, is_hooked
from graphut.nn.ponder import FlopCount
from graphut.nn.transition import PositionwiseTransition, Transition


class AttentionContext(Protocol):
    """Keys and values of all nodes, as a step and the adaptive loop use them.

    A graph is one such context; the cache of a decoder is another.
    """

    frontier: Tensor | None  # (A,) ids of the active nodes; None for all
    count: Tensor | None  # number of active nodes in the frontier, where only the device knows it
    value_shift: Tensor | None  # (d,) to be added to every value

    @property
    def num_src(self) -> int:
        """Number of nodes that show keys and values in this step."""

    @property
    def num_dst(self) -> int:
        """Number of nodes that may be computed in this step."""

    def begin_step(self, step: int) -> None:
        """Go on to a step, counted from 1."""

    def write(self, nodes: Tensor | None, key_value: Tensor) -> None:
        """Replace the keys and values of `nodes`, or of all."""

    def attend(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        """Return self-attention of packed rows `(A, d)` over their in-neighbours."""

    def cross_attend(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        """Return attention of packed rows `(A, d)` over the encoder's output."""

    def feed_forward(self, transition: Transition, rows: Tensor) -> Tensor:
        """Return the transition of packed rows `(A, d)`; it may read neighbouring tokens."""


class EncoderOutput:
    """The encoder's output `(N_src, d)`, which each cross-attention projects once for all steps."""

    def __init__(self, feat: Tensor) -> None:
        self.feat = feat
        self.flops = 0  # floating-point operations of all projections so far
        self._projected: dict[MultiHeadAttention, Tensor] = {}

    def count(self, layer: MultiHeadAttention) -> None:
        """Count a projection of a layer."""
        self.flops += self.feat.shape[0] * layer.key_value_flops

    def key_value(self, layer: MultiHeadAttention) -> Tensor:
        """Return keys and values `(N_src, 2 * H * D)` of a layer."""
        if layer not in self._projected:
            self.count(layer)
            self._projected[layer] = layer.project(self.feat)
        return self._projected[layer]


@dataclass
class GraphContext:
    """A graph, or one sampled block for each step, as an `AttentionContext`."""

    layout: EdgeLayout  # edges of self-attention in this step
    cross_layout: EdgeLayout | None = None  # edges from the encoder's nodes into a decoder's
    encoded: EncoderOutput | None = None
    blocks: Sequence[EdgeLayout] = ()  # with sampled blocks: the edges of each step
    # (E,) or (E, H), added to the scores of self-attention; with blocks one for each.
    edge_bias: Tensor | Sequence[Tensor] | None = None
    edge_feat: Tensor | Sequence[Tensor] | None = None  # (E, edge_dim); with blocks one for each
    get_attention: bool = False  # whether to keep the weights of each attention
    # What self-attention reads, (N_src, d), if it is called as a module to project it by itself.
    sources: Tensor | None = None
    in_place: KeyValueMemory | None = None  # where the backend reads them without a copy a step
    owns_table: bool = False  # whether keys and values may be written in place without gradients
    frontier: Tensor | None = None
    count: Tensor | None = None
    value_shift: Tensor | None = None
    key_value: Tensor | None = field(default=None, init=False)
    combined: Tensor | None = field(default=None, init=False)  # what a convolution reads, (N, d)
    weights: list[Tensor] = field(default_factory=list, init=False)  # (E, H) of each attention
    cross_weights: list[Tensor] = field(default_factory=list, init=False)  # (E_cross, H)
    work: FlopCount = field(init=False)
    _step: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        """Begin an empty record of the work."""
        self.work = FlopCount()  # torch.compile does not trace a default_factory

    @property
    def num_src(self) -> int:
        """Number of nodes that show keys and values."""
        return self.layout.num_src

    @property
    def num_dst(self) -> int:
        """Number of nodes that may be computed."""
        return self.layout.num_dst

    def begin_step(self, step: int) -> None:
        """Go on to a step; with blocks, to the edges that serve it."""
        self._step = step
        if self.blocks:
            self.layout = self.blocks[step - 1]
            if self.key_value is not None:
                self.key_value = self.key_value[: self.num_src]

    def branch(self) -> GraphContext:
        """Return a copy for one step, which projects all it reads and has an empty record."""
        own = copy(self)
        own.work, own.weights, own.cross_weights = FlopCount(), [], []
        own.encoded = None if self.encoded is None else EncoderOutput(self.encoded.feat)
        return own

    def join(self, after: GraphContext) -> None:
        """Take over what a step has done on a branch."""
        if after.encoded is not None and self.encoded is not None:
            after.encoded.flops += self.encoded.flops
        self.combined, self.encoded = after.combined, after.encoded
        self.weights += after.weights
        self.cross_weights += after.cross_weights
        self.work.attended += after.work.attended
        self.work.cross_attended += after.work.cross_attended

    def write(self, nodes: Tensor | None, key_value: Tensor) -> None:
        """Replace the keys and values of `nodes`, or of all."""
        self.work.projections.append((self.num_src, nodes))
        if self.in_place is not None:
            self.in_place.write(nodes, key_value)
        elif self.owns_table and nodes is not None:
            assert self.key_value is not None
            self.key_value.index_copy_(0, nodes, key_value)
        elif self.owns_table:  # the layer may keep the tensor that it returned
            self.key_value = key_value.clone()
        else:
            self.key_value = _updated(self.key_value, nodes, key_value)

    def attend(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        """Return self-attention of packed rows over their in-neighbours."""
        self.work.attended.append((self.layout, self.frontier))
        options: dict[str, Any] = {
            "frontier": self.frontier,
            "edge_bias": self._of_step(self.edge_bias),
            "edge_feat": self._of_step(self.edge_feat),
            "get_attention": self.get_attention,
        }
        out: Tensor
        if self.sources is not None:
            result = layer(self.layout, self.sources, **options)
            out, weights = result if self.get_attention else (result, None)
        else:
            options.update(count=self.count, value_shift=self.value_shift)
            out, weights = layer.attend(self.layout, rows, self._key_value(), **options)
        if weights is not None:
            self.weights.append(weights)
        return out

    def cross_attend(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        """Return attention of packed rows over the encoder's output."""
        assert self.cross_layout is not None and self.encoded is not None
        self.work.cross_attended.append((self.cross_layout, self.frontier))
        options: dict[str, Any] = {"frontier": self.frontier, "get_attention": self.get_attention}
        out: Tensor
        if is_hooked(layer):
            table = rows
            if self.frontier is not None:
                zeros = rows.new_zeros(self.num_dst, rows.shape[1])
                table = zeros.index_copy(0, self.frontier, rows)
            self.encoded.count(layer)
            result = layer(self.cross_layout, (self.encoded.feat, table), **options)
            out, weights = result if self.get_attention else (result, None)
        else:
            key_value = self.encoded.key_value(layer)
            out, weights = layer.attend(
                self.cross_layout, rows, key_value, count=self.count, **options
            )
        if weights is not None:
            self.cross_weights.append(weights)
        return out

    def feed_forward(self, transition: Transition, rows: Tensor) -> Tensor:
        """Return the transition of packed rows; it may read neighbouring tokens."""
        if isinstance(transition, PositionwiseTransition):
            return transition(self.layout, rows)
        nodes, size = self.frontier, self.num_dst
        if self.count is None:
            self.combined = _updated(self.combined, nodes, rows)
        else:
            # Rows behind the last true one are those of a node that the graph does not have.
            assert nodes is not None
            if self.combined is None:
                self.combined = rows.new_zeros(size + 1, rows.shape[1])
            self.combined = self.combined.index_copy(0, nodes, rows)
            nodes = existing(nodes, size)
        return transition(self.layout, self.combined[:size], frontier=nodes)

    def _key_value(self) -> Tensor | KeyValueMemory:
        if self.in_place is not None:
            return self.in_place
        assert self.key_value is not None
        return self.key_value if self.count is None else self.key_value[: self.num_src]

    def _of_step(self, of_edges: Tensor | Sequence[Tensor] | None) -> Tensor | None:
        if of_edges is None or isinstance(of_edges, Tensor):
            return of_edges
        return of_edges[self._step - 1]


def existing(nodes: Tensor, size: int) -> Tensor:
    """Replace ids that are not below `size` by ids that are, few of them twice.

    Examples
    --------
    >>> existing(torch.tensor([2, 4, 9, 9]), 5)
    tensor([2, 4, 2, 3])
    """
    return torch.where(nodes < size, nodes, torch.arange(len(nodes), device=nodes.device))


def _updated(table: Tensor | None, nodes: Tensor | None, rows: Tensor) -> Tensor:
    if table is None or nodes is None:
        return rows
    return table.index_copy(0, nodes, rows)
