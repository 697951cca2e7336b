"""The frontier on a GPU, under rules whose nodes halt for good; the host does not wait."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from graphut.nn.call_state import GraphContext, LoopState
from graphut.nn.gpu.async_checks import AsyncFiniteChecks
from graphut.nn.halting_frontier import ActiveRows, HaltingFrontier, HaltSplit
from graphut.nn.noise import Noise
from graphut.nn.transition import PositionwiseTransition, Transition


class DeviceRows(ActiveRows):
    """States of the active nodes, followed by padding rows.

    Padding rows have the id `N_src`, which belongs to no node. They contain finite numbers, and no
    result depends on them. The number of active nodes never grows. So their number in an earlier
    step, which `checks` has copied to the host meanwhile, is an upper bound.
    """

    nodes: Tensor  # (A,) ids of active nodes, sorted, and then `N_src`
    count: Tensor  # number of active nodes, on the device

    def __init__(
        self,
        feat: Tensor,
        encodings: Tensor | None,
        num_dst: int,
        checks: AsyncFiniteChecks,
        noise: Noise | None = None,
    ) -> None:
        self._missing = feat.shape[0]
        self._checks = checks
        self.count = torch.full((), num_dst, device=feat.device)
        encodings = None if encodings is None else _padded(encodings)
        super().__init__(_padded(feat), encodings, num_dst, noise)

    def all_states(self, num_src: int, nodes: Tensor | None, rows: Tensor) -> Tensor:
        """Return the table of `ActiveRows.all_states` with one more row, for padding rows."""
        return super().all_states(num_src + 1, nodes, rows)

    def advance(self, states: Tensor, halts: Tensor) -> HaltSplit:
        """Store the new states, `(A, d)`, and split the nodes by the mask `halts`, `(A,)`."""
        active = self.nodes < self._missing
        halting_nodes = self.nodes.masked_fill(~(active & halts), self._missing)
        order, self.count = active_first(active & ~halts)
        self.num_active = self._checks.bound(self.count)
        rows = order[: self.num_active]
        self._advance(states, rows)
        row = torch.arange(len(rows), device=rows.device)
        self.nodes = self.nodes.masked_fill(row >= self.count, self._missing)
        return HaltSplit(len(halts), halting_nodes, None, rows)


def existing(nodes: Tensor, size: int) -> Tensor:
    """Replace ids of `size` or more (padding) by valid ids, spread to avoid contention.

    Examples
    --------
    >>> existing(torch.tensor([2, 4, 9, 9]), 5)
    tensor([2, 4, 2, 3])
    """
    return torch.where(nodes < size, nodes, torch.arange(len(nodes), device=nodes.device))


def active_first(active: Tensor) -> tuple[Tensor, Tensor]:
    """Return the indices of a mask with True entries first, and the number of True entries."""
    row = torch.arange(len(active), device=active.device)
    ahead = active.cumsum(0)
    count = ahead[-1]
    target = torch.where(active, ahead - 1, count + row - ahead)
    return torch.empty_like(row).scatter_(0, target, row), count


def _padded(rows: Tensor) -> Tensor:
    return pad(rows, (0, 0, 0, 1))


class DeviceContext(GraphContext):
    """A `GraphContext` for active nodes that may be followed by padding rows, see `DeviceRows`.

    Tables of keys and values have one more row at the end, for the padding rows.

    Layers with hooks, sampled blocks, edge biases and edge features are not supported.
    """

    def _table(self) -> Tensor:
        assert self.key_value is not None
        return self.key_value[: self.num_src]

    def feed_forward(self, transition: Transition, rows: Tensor) -> Tensor:
        """Return the feed-forward output for the inputs `rows` of active nodes and padding rows."""
        if isinstance(transition, PositionwiseTransition):
            return transition(self.layout, rows)
        assert self.frontier is not None
        if self.combined is None:
            self.combined = rows.new_zeros(self.num_dst + 1, rows.shape[1])
        self.combined = self.combined.index_copy(0, self.frontier, rows)
        nodes = existing(self.frontier, self.num_dst)
        return transition(self.layout, self.combined[: self.num_dst], frontier=nodes)


class DeviceFrontier(HaltingFrontier):
    """The set of active nodes on a GPU, which may end with the padding rows of `DeviceRows`.

    `state.checks` must be `AsyncFiniteChecks`, and all attention layers must take counts.
    """

    rows: DeviceRows
    context: DeviceContext

    def __init__(self, state: LoopState) -> None:
        graph, checks = state.context, state.checks
        assert isinstance(checks, AsyncFiniteChecks)
        num_src, given = graph.num_src, (state.feat, state.encodings, graph.num_dst)
        super().__init__(state, DeviceRows(*given, checks, state.noise))
        assert isinstance(graph, GraphContext)
        self.context = DeviceContext(graph.layout, graph.cross_layout, graph.encoded)
        self.context.work = graph.work
        state.context = self.context
        if (halting := state.halting) is not None:

            def halt(seen: Tensor, nodes: Tensor, t: int) -> Tensor:
                return halting(seen, existing(nodes, num_src), t)

            state.halting = halt
        shifts = self.halted == "copied" and state.plan.has_linear_projection
        if shifts and state.signals is not None:  # the shifts of all steps in one launch
            self.value_shifts = state.step(1).value_shift(state.signals).unbind()

    def refresh_keys_and_values(self, t: int) -> Tensor:
        """Update the key/value table; return the input of step `t` for active nodes, `(A, d)`."""
        self.context.count = self.rows.count
        return super().refresh_keys_and_values(t)
