"""What the active nodes see: the one thing that a step asks about the world around its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.key_value_memory import KeyValueMemory
from graphut.nn.attention import MultiHeadAttention
from graphut.nn.transition import PositionwiseTransition, SeparableConvTransition, Transition


class Surroundings(Protocol):
    """Answers a step's three questions for its packed rows, `(A, d)` in and out."""

    def attend(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        """Self-attention over the keys and values of the in-neighbours."""

    def cross(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        """Attention over the encoder's output."""

    def transit(self, transition: Transition, rows: Tensor) -> Tensor:
        """The transition, which may read neighbouring tokens."""


class Showing(Surroundings, Protocol):
    """Surroundings in which the rows themselves are seen: what a recurrence writes to.

    Attributes
    ----------
    frontier : Tensor or None
        `(A,)` ids of the active nodes; `None` for all.
    value_shift : Tensor or None
        `(d,)`, to be added to every value.
    """

    frontier: Tensor | None
    value_shift: Tensor | None

    def write(self, nodes: Tensor | None, memory: Tensor) -> None:
        """Replace the keys and values of `nodes`, or of all; called once a step."""


class Encoded:
    """The encoder's output, `(N_src, d)`, as each layer of cross-attention projects it: once.

    Examples
    --------
    >>> import torch
    >>> layer, encoded = MultiHeadAttention(8, num_heads=2), Encoded(torch.randn(3, 8))
    >>> encoded.memory(layer) is encoded.memory(layer)
    True
    """

    def __init__(self, feat: Tensor) -> None:
        self.feat = feat
        self._memories: dict[MultiHeadAttention, Tensor] = {}

    @property
    def flops(self) -> int:
        """Floating-point operations of all projections so far."""
        return self.feat.shape[0] * sum(layer.memory_flops for layer in self._memories)

    def memory(self, layer: MultiHeadAttention) -> Tensor:
        """Keys and values from a layer."""
        if layer not in self._memories:
            self._memories[layer] = layer.project(self.feat)
        return self._memories[layer]


@dataclass
class GraphSurroundings:
    """A whole graph: what every node shows, and which of them are active.

    Parameters
    ----------
    layout : EdgeLayout
        Self-attention's edges.
    cross_layout, encoded : EdgeLayout, Encoded, or None
        A decoder's edges from the source, and the encoder's output.
    in_place : KeyValueMemory or None
        Holds `memory` if the attention that reads it can do without a copy for each step.
    frontier : Tensor or None
        `(A,)` ids of the active nodes; `None` for all.
    memory : Tensor or None
        `(N, 2 d)` keys and values of all nodes, if not `in_place`.
    value_shift : Tensor or None
        `(d,)`, to be added to every value.
    combined : Tensor or None
        `(N, d)`: what each node last gave to a transition that reads neighbours.
    edge_bias : Tensor or None
        `(E,)` or `(E, num_heads)`, added to the scores of self-attention.
    weights : list of Tensor or None
        Where the weights of each self-attention, `(E, num_heads)`, are put, if anywhere.
    """

    layout: EdgeLayout
    cross_layout: EdgeLayout | None = None
    encoded: Encoded | None = None
    in_place: KeyValueMemory | None = None
    frontier: Tensor | None = None
    memory: Tensor | None = None
    value_shift: Tensor | None = None
    combined: Tensor | None = None
    edge_bias: Tensor | None = None
    weights: list[Tensor] | None = None

    def write(self, nodes: Tensor | None, memory: Tensor) -> None:
        """Replace the keys and values of `nodes`, or of all."""
        if self.in_place is not None:
            self.in_place.write(nodes, memory)
        else:
            self.memory = _written(self.memory, nodes, memory)

    def attend(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        """Self-attention over the keys and values of the in-neighbours."""
        memory = self.memory if self.in_place is None else self.in_place
        assert memory is not None
        attended: Any = layer.attend(
            self.layout,
            rows,
            memory,
            frontier=self.frontier,
            value_shift=self.value_shift,
            edge_bias=self.edge_bias,
            get_attention=self.weights is not None,
        )
        if self.weights is not None:
            attended, weights = attended
            self.weights.append(weights)
        return attended  # type: ignore[no-any-return]

    def cross(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        """Attention over the encoder's output."""
        assert self.cross_layout is not None and self.encoded is not None
        memory = self.encoded.memory(layer)
        attended: Any = layer.attend(self.cross_layout, rows, memory, frontier=self.frontier)
        return attended  # type: ignore[no-any-return]

    def transit(self, transition: Transition, rows: Tensor) -> Tensor:
        """The transition, which may read neighbouring tokens."""
        if isinstance(transition, PositionwiseTransition):
            return transition(self.layout, rows)  # type: ignore[no-any-return]
        assert isinstance(transition, SeparableConvTransition)
        self.combined = _written(self.combined, self.frontier, rows)
        out: Tensor = transition(self.layout, self.combined, frontier=self.frontier)
        return out


def _written(table: Tensor | None, nodes: Tensor | None, rows: Tensor) -> Tensor:
    if table is None or nodes is None:
        return rows
    return table.index_copy(0, nodes, rows)
