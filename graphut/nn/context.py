"""The context of a step: edges, keys and values of all nodes, and the encoder's output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.key_value_memory import KeyValueMemory
from graphut.nn.attention import MultiHeadAttention, is_hooked
from graphut.nn.hetero_attention import HeteroAttention
from graphut.nn.ponder import FlopCount
from graphut.nn.transition import PositionwiseTransition, Transition


class EncoderOutput:
    """The encoder's output `(N_src, d)`, and a cache of its keys and values for each layer."""

    def __init__(self, feat: Tensor) -> None:
        self.feat = feat
        self.flops = 0  # floating-point operations of all projections so far
        self._projected: dict[MultiHeadAttention, Tensor] = {}
        self._memories: dict[MultiHeadAttention, KeyValueMemory] = {}

    def count(self, layer: MultiHeadAttention) -> None:
        """Add to `flops` the operations for one projection of the encoder's output by `layer`."""
        self.flops += self.feat.shape[0] * layer.key_value_flops

    def key_value(self, layer: MultiHeadAttention) -> Tensor:
        """Return the keys and values, `(N_src, 2 * H * D)`, of the encoder's output for `layer`."""
        if layer not in self._projected:
            self.count(layer)
            self._projected[layer] = layer.project(self.feat)
        return self._projected[layer]

    def memory(self, layer: MultiHeadAttention) -> KeyValueMemory:
        """Return the result of `key_value` in a `KeyValueMemory`, which nothing overwrites."""
        if layer not in self._memories:
            self._memories[layer] = KeyValueMemory(layer.num_heads)
            self._memories[layer].write(None, self.key_value(layer))
        return self._memories[layer]


@dataclass
class GraphContext:
    """Edges, keys, values and options that the steps of one call of a recurrence share.

    With sampled blocks, the edges are replaced in each step by the edges of its block. A decoder
    with a key/value cache uses a subclass.
    """

    layout: EdgeLayout  # edges of self-attention in this step
    cross_layout: EdgeLayout | None = None  # edges from the encoder's nodes to a decoder's
    encoded: EncoderOutput | None = None
    blocks: Sequence[EdgeLayout] = ()  # the edges of each step, if these are sampled blocks
    # The options `edge_bias`, `edge_feat` and `edge_weight` of self-attention; lists for blocks.
    of_edges: dict[str, Any] = field(default_factory=dict)
    get_attention: bool = False  # whether to keep the attention weights
    # (N_src, d), input of self-attention, if hooks require a call of the whole layer.
    sources: Tensor | None = None
    count: Tensor | None = None  # number of active nodes, if only the device knows it
    in_place: KeyValueMemory | None = None  # replaces `key_value` where the backend supports it
    cross_in_place: bool = False  # the same, for keys and values of the encoder's output
    owns_table: bool = False  # whether `key_value` may be changed in place, without gradients
    frontier: Tensor | None = None  # (A,) ids of the active nodes; None for all
    value_shift: Tensor | None = None  # (d,) to be added to every value
    key_value: Tensor | None = field(default=None, init=False)  # (N_src, 2 * H * D)
    combined: Tensor | None = field(default=None, init=False)  # (N, d), input of a convolution
    weights: list[Tensor] = field(default_factory=list, init=False)  # (E, H) of each attention
    cross_weights: list[Tensor] = field(default_factory=list, init=False)  # (E_cross, H)
    work: FlopCount = field(init=False)
    _step: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        """Create an empty record of computed nodes and edges."""
        self.work = FlopCount()  # torch.compile does not trace a default_factory

    @property
    def num_src(self) -> int:
        """Number of nodes with keys and values."""
        return self.layout.num_src

    @property
    def num_dst(self) -> int:
        """Number of nodes that can be active."""
        return self.layout.num_dst

    def begin_step(self, step: int) -> None:
        """Begin step `step`, from 1; with sampled blocks, switch to the block of this step."""
        self._step = step
        if self.blocks:
            self.layout = self.blocks[step - 1]
            if self.key_value is not None:
                self.key_value = self.key_value[: self.num_src]

    def project(self, step: Any, nodes: Tensor | None, rows: Tensor) -> None:
        """Project the states `rows` of `nodes` with `step`, and store the keys and values."""
        by_type = isinstance(getattr(step, "attention", None), HeteroAttention)
        self.write(nodes, step.project(rows, *((self.layout, nodes) if by_type else ())))

    def write(self, nodes: Tensor | None, key_value: Tensor) -> None:
        """Store the keys and values, `(A, 2 * H * D)`, of `nodes`, `(A,)`; None is all nodes."""
        self.work.projections.append((self.num_src, nodes))
        if self.in_place is not None:
            self.in_place.write(nodes, key_value)
        elif self.owns_table and self.key_value is not None and nodes is not None:
            self.key_value.index_copy_(0, nodes, key_value)
        elif self.owns_table:  # a hook may keep the tensor that the layer returned
            self.key_value = key_value.clone()
        else:
            self.key_value = updated(self.key_value, nodes, key_value)

    def attend(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        """Return the self-attention output of the active nodes, given their features `(A, d)`."""
        layout, frontier = self.layout, self.frontier
        self.work.attended.append((layout, frontier))
        if self.in_place is not None and self.sources is None:
            return layer.attend_memory(layout, rows, self.in_place, frontier, self.value_shift)
        options: dict[str, Any] = {"frontier": frontier, "get_attention": self.get_attention}
        for name, given in self.of_edges.items():
            is_list = not isinstance(given, Tensor | None)
            options[name] = given[self._step - 1] if is_list else given
        if self.sources is not None:
            return self._keep(layer(layout, self.sources, **options), self.weights)
        options |= {"value_shift": self.value_shift, "count": self.count}
        return self._keep(layer.attend(layout, rows, self._table(), **options), self.weights)

    def _table(self) -> Tensor:
        assert self.key_value is not None
        return self.key_value

    def cross_attend(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        """Return the cross-attention output of the active nodes, given their features `(A, d)`."""
        assert self.cross_layout is not None and self.encoded is not None
        self.work.cross_attended.append((self.cross_layout, self.frontier))
        if self.cross_in_place:
            memory = self.encoded.memory(layer)
            return layer.attend_memory(self.cross_layout, rows, memory, self.frontier)
        options: Any = {"frontier": self.frontier, "get_attention": self.get_attention}
        if is_hooked(layer):  # hooks require a call with the rows of all nodes
            table = rows
            if self.frontier is not None:
                zeros = rows.new_zeros(self.num_dst, rows.shape[1])
                table = zeros.index_copy(0, self.frontier, rows)
            self.encoded.count(layer)
            found = layer(self.cross_layout, (self.encoded.feat, table), **options)
        else:
            key_value, options["count"] = self.encoded.key_value(layer), self.count
            found = layer.attend(self.cross_layout, rows, key_value, **options)
        return self._keep(found, self.cross_weights)

    def feed_forward(self, transition: Transition, rows: Tensor) -> Tensor:
        """Return the feed-forward output of the active nodes, `(A, d)`, given its inputs `rows`."""
        if isinstance(transition, PositionwiseTransition):
            return transition(self.layout, rows)
        self.combined = updated(self.combined, self.frontier, rows)
        return transition(self.layout, self.combined[: self.num_dst], frontier=self.frontier)

    def _keep(self, found: Any, record: list[Tensor]) -> Tensor:
        """Return `out` from `found`, `out` or `(out, weights)`; append any weights to `record`."""
        out, weights = found if isinstance(found, tuple) else (found, None)
        if weights is not None:
            record.append(weights)
        return out


def updated(table: Tensor | None, nodes: Tensor | None, rows: Tensor) -> Tensor:
    """Return a copy of `table` with `rows` at `nodes`, or `rows` if `table` or `nodes` is None."""
    return rows if table is None or nodes is None else table.index_copy(0, nodes, rows)
