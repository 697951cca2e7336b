"""The keys and values of one call of a recurrence, and the edges over which its steps read them."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.key_value_memory import KeyValueMemory
from graphut.nn.noise import Noise
from graphut.nn.ponder import FlopCount
from graphut.nn.transition import PositionwiseTransition, Transition


class EncoderOutput:
    """The encoder's output `(N_src, d)`, projected once for each layer of cross-attention."""

    def __init__(self, feat: Tensor, *, in_place: bool = False) -> None:
        self.feat, self.in_place = feat, in_place
        self.flops = 0  # floating-point operations of all projections so far
        self._stored: dict[Any, Any] = {}

    def stored(self, layer: Any) -> Any:
        """Return the keys and values for `layer`: a tensor, or a `KeyValueMemory` if `in_place`."""
        if layer not in self._stored:
            self.flops += self.feat.shape[0] * layer.key_value_flops
            self._stored[layer] = table = layer.project(self.feat)
            if self.in_place:
                self._stored[layer] = memory = KeyValueMemory(layer.num_heads)
                memory.write(None, table)
        return self._stored[layer]


class Store:
    """Edges, keys and values that the steps of one call share.

    The loop sets the step and its frontier, and writes keys and values. A step reads them with
    `attend`, `cross_attend` and `feed_forward`. There is a subclass for a decoder with a key/value
    cache, and one for a process that has a part of the graph (`graphut.distributed`).
    """

    is_cache = False  # whether later tokens of a decoder may take more steps
    replaces_all = True  # whether a write of all nodes leaves no other rows

    def __init__(
        self,
        layouts: Sequence[EdgeLayout],  # one for all steps, or one for each step
        *,
        cross_layout: EdgeLayout | None = None,  # edges from the encoder's nodes
        encoded: EncoderOutput | None = None,
        edge_options: Mapping[str, Any] | None = None,  # lists if there are several layouts
        get_attention: bool = False,
    ) -> None:
        self.layouts, self.layout = layouts, layouts[0]
        self.cross_layout, self.encoded = cross_layout, encoded
        self.edge_options = {k: x for k, x in (edge_options or {}).items() if x is not None}
        self.get_attention = get_attention
        self.memory: KeyValueMemory | None = None  # in place of `table`, where a backend has one
        self.table: Tensor | None = None  # (N_src, 2 * H * D), for all other attention layers
        self.owns_table = False  # whether the table may be changed in place, without gradients
        self.step = 1
        self.frontier: Tensor | None = None  # (A,) ids of the active nodes; None for all
        self.value_shift: Tensor | None = None  # (H * D,) to be added to every value
        self.combined: Tensor | None = None  # (N, d), input of a convolution
        self.weights: list[Tensor] = []  # (E, H) of each self-attention
        self.cross_weights: list[Tensor] = []  # (E_cross, H)
        self.work = FlopCount()

    def received(self, nodes: Tensor | None, rows: Tensor) -> tuple[Tensor | None, Tensor]:
        """Return changed nodes and their `rows`, plus nodes received from any other processes."""
        return nodes, rows

    def any_active(self, count: int) -> bool:
        """Return whether any process has an active node; `count` is the number on this process."""
        return count > 0

    def all_reduce(self, values: Tensor) -> Tensor:
        """Return the sum of `values` over all processes that have a part of the graph."""
        return values

    def same_noise(self, noise: Noise) -> Noise:
        """Return the noise of a call, the same in all processes that have a part of the graph."""
        return noise

    def close(self, results: Any) -> Any:
        """Return the results of a call, a pytree, when no process needs anything more of it."""
        return results

    def begin_step(self, step: int) -> None:
        """Begin step `step`, from 1: switch to its edges, and add nothing to the values."""
        self.step, self.value_shift = step, None
        if len(self.layouts) > 1:
            self.layout = self.layouts[step - 1]
            if self.table is not None:
                self.table = self.table[: self.layout.num_src]

    def write(self, nodes: Tensor | None, key_value: Tensor) -> None:
        """Store the keys and values, `(A, 2 * H * D)`, of `nodes`, `(A,)`; None is all nodes."""
        self.work.projections.append((self.layout.num_src, nodes))
        if self.memory is not None:
            self.memory.write(nodes, key_value)
        elif self.table is None or nodes is None:  # a hook may keep the tensor of the layer
            self.table = key_value.clone() if self.owns_table else key_value
        elif self.owns_table:
            self.table.index_copy_(0, nodes, key_value)
        else:
            self.table = self.table.index_copy(0, nodes, key_value)

    def attend(self, layer: Any, rows: Tensor) -> Tensor:
        """Return the self-attention output of the active nodes, given their features `(A, d)`."""
        options: dict[str, Any] = {"frontier": self.frontier}
        for name, value in self.edge_options.items():
            options[name] = value if isinstance(value, Tensor) else value[self.step - 1]
        if self.value_shift is not None:
            options["value_shift"] = self.value_shift
        if self.get_attention:
            options["get_attention"] = True
        stored = self.table if self.memory is None else self.memory
        result: Any = layer(self.layout, rows, stored=stored, **options)
        if not self.get_attention:
            return result
        self.weights.append(result[1])
        return result[0]

    def cross_attend(self, layer: Any, rows: Tensor) -> Tensor:
        """Return the cross-attention output of the active nodes, given their features `(A, d)`."""
        assert self.encoded is not None
        options: Any = {"get_attention": True} if self.get_attention else {}
        stored = self.encoded.stored(layer)
        result: Any = layer(
            self.cross_layout, rows, stored=stored, frontier=self.frontier, **options
        )
        if not self.get_attention:
            return result
        self.cross_weights.append(result[1])
        return result[0]

    def feed_forward(self, transition: Transition, rows: Tensor) -> Tensor:
        """Return the feed-forward output of the active nodes, `(A, d)`, given its inputs `rows`."""
        if isinstance(transition, PositionwiseTransition):
            return transition(self.layout, rows)
        if self.combined is None or self.frontier is None:
            self.combined = rows
        else:
            self.combined = self.combined.index_copy(0, self.frontier, rows)
        num_dst = self.layout.num_dst
        return transition(self.layout, self.combined[:num_dst], frontier=self.frontier)

    def branch(self, projected: Tensor) -> "Store":
        """Return a copy with the keys and values `projected`, in which nothing is recorded yet."""
        other = copy(self)
        other.table, other.weights, other.cross_weights = projected, [], []
        return other
