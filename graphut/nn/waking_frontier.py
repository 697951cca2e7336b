"""The frontier of the rule `EventDriven`: a node wakes when something that it reads has changed."""

from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.argument_checks import check_finite
from graphut.attention.sorting import sort_edges
from graphut.attention.tensor_checks import check_index, check_range, check_tensor
from graphut.nn.call_state import FrontierRows, GraphContext, LoopOutput, LoopState, squared_change
from graphut.nn.noise import with_noise
from graphut.nn.ponder import Ponder
from graphut.nn.rules.event_driven import EventDriven

Ints = NDArray[np.int64]
_FEW = 256  # nodes


class Start(NamedTuple):
    """The states and nodes from which a run with the rule `EventDriven` continues."""

    shown: Tensor  # (M, d) shown states of the first nodes; later nodes are new
    frontier: Tensor | None  # (A,) sorted nodes of the first round; None for all


def with_out_neighbours(layout: EdgeLayout, nodes: Tensor) -> Tensor:
    """Return the sorted ids of all destinations among `nodes` and their out-neighbours.

    Examples
    --------
    >>> from graphut.topology import Window
    >>> with_out_neighbours(Window(1).layout([9]), torch.tensor([3, 4]))
    tensor([2, 3, 4, 5])
    """
    ends, degrees, targets = layout.cached(_out_edges)
    size = layout.num_dst
    if nodes.device.type == "cpu" and len(nodes) < _FEW:
        return torch.from_numpy(_few_with_out_neighbours(layout, nodes.numpy()))
    degree = degrees.index_select(0, nodes)
    edge = torch.repeat_interleave(ends.index_select(0, nodes) - degree.cumsum(0), degree)
    edge += torch.arange(len(edge), device=edge.device)
    reached = targets.index_select(0, edge)
    if size < layout.num_src:
        nodes = nodes[nodes < size]
    if 8 * (len(nodes) + len(reached)) < size:
        return torch.cat([nodes, reached]).unique()
    # As many nodes as a fraction of the graph: a mask is faster than sorting.
    awake = torch.zeros(size, dtype=torch.bool, device=nodes.device)
    awake.index_fill_(0, nodes, True).index_fill_(0, reached, True)
    return awake.nonzero()[:, 0]


def _few_with_out_neighbours(layout: EdgeLayout, nodes: Ints) -> Ints:
    """Return `with_out_neighbours` of a few nodes, for which calls of numpy are shorter."""
    ends, degrees, targets = layout.cached(_out_edges_of_numpy)
    degree = degrees[nodes]
    edge = np.repeat(ends[nodes] - degree.cumsum(), degree)
    edge += np.arange(len(edge))
    if layout.num_dst < layout.num_src:
        nodes = nodes[nodes < layout.num_dst]
    reached: Ints = np.concatenate([nodes, targets[edge]])
    reached.sort()
    is_first = np.ones(len(reached), dtype=bool)
    np.not_equal(reached[1:], reached[:-1], out=is_first[1:])
    return reached[is_first]


def _out_edges(layout: EdgeLayout) -> tuple[Tensor, Tensor, Tensor]:
    """Sort edges by source; return each source's end index and out-degree, and destinations."""
    rows = layout.destinations()
    starts, targets, _ = sort_edges(rows, layout.sources(), layout.num_dst, layout.num_src)
    return starts[1:].clone(), starts.diff(), targets


def _out_edges_of_numpy(layout: EdgeLayout) -> tuple[Ints, ...]:
    return tuple(x.numpy() for x in layout.cached(_out_edges))


def start_of_changes(
    layout: EdgeLayout,
    shown: Ponder | Tensor,
    feat: Tensor,
    changed: Tensor | None,
    edges_into: Tensor | None,
) -> Start:
    """Return the states and nodes from which `AdaptiveRecurrence.resume` continues a run."""
    awake = None
    if isinstance(shown, Ponder):
        if shown.shown is None:
            raise ValueError(f"{shown} is not the record of a run with the rule EventDriven")
        awake, shown = shown.awake, shown.shown
    check_tensor(shown, "shown")
    num_src, num_dst, old = layout.num_src, layout.num_dst, len(shown)
    fits = shown.dtype == feat.dtype or torch.is_autocast_enabled(feat.device.type)
    fits = fits and shown.device == feat.device and shown.shape[1:] == feat.shape[1:]
    if not fits or old > num_dst:
        raise ValueError(
            f"shown must be (M, {feat.shape[-1]}) {feat.dtype} on {feat.device} with at most "
            f"{num_dst} rows, one for each old node; got {tuple(shown.shape)} {shown.dtype} on "
            f"{shown.device}"
        )
    check_finite(shown=shown)
    none = torch.zeros(0, dtype=torch.int64, device=layout.device)
    changed = _checked_ids("changed", changed, num_src, none)
    edges_into = _checked_ids("edges_into", edges_into, num_dst, none)
    new = torch.arange(old, num_dst, device=layout.device)
    reached = with_out_neighbours(layout, torch.cat([changed, new]))
    if awake is None:  # the states do not tell which nodes were awake
        return Start(shown, None)
    awake = _checked_ids("awake", awake, num_dst, none)
    return Start(shown, torch.cat([reached, edges_into, awake]).unique())


def _checked_ids(name: str, ids: Tensor | None, size: int, none: Tensor) -> Tensor:
    if ids is None:
        return none
    check_index(name, ids)
    check_range(name, ids, size)
    return ids.to(none.device)


class WakingFrontier:
    """State of an event-driven run: the states that neighbours read, and the next active nodes."""

    def __init__(self, state: LoopState, start: Start | None = None) -> None:
        context, self.shown = state.context, state.feat
        if not isinstance(context, GraphContext):
            raise ValueError("EventDriven needs a graph; a decoder cannot wake earlier tokens")
        self._encodings = state.encodings
        if state.exchange is not None:
            _, self.shown = state.with_halo(None, self.shown)
            if self._encodings is not None:
                _, self._encodings = state.with_halo(None, self._encodings)
        self.nodes: Tensor | None = None  # (A,) sorted nodes of the frontier; None for all
        if start is not None:
            self.shown = torch.cat([start.shown, self.shown[len(start.shown) :]])
            self.nodes = start.frontier
        assert isinstance(state.plan.rule, EventDriven)
        self.state, self.context, self.rule = state, context, state.plan.rule
        self._track = torch.is_grad_enabled()
        if not self._track:  # the states are written in place, so the caller's tensor is copied
            self.shown = self.shown.clone()
            context.owns_table = not state.plan.steps[0].is_hooked
        size = context.num_dst
        self.num_active = size if self.nodes is None else len(self.nodes)
        self._active: Tensor | None = None  # (A, d) shown states of the frontier
        self._changed: Tensor | None = None  # nodes that changed in the last round; None for all
        self._ones = torch.ones(size, dtype=torch.int64, device=self.shown.device)
        self._updates, self._last_change = (torch.zeros_like(self._ones) for _ in range(2))
        self._rounds = self._ones.new_zeros(1 if state.batch is None else state.batch.num_graphs)
        self._sizes: list[int] = []

    def refresh_keys_and_values(self, t: int) -> Tensor:
        """Update the key/value table; return the input of round `t` for active nodes, `(A, d)`."""
        context, nodes = self.context, self.nodes
        context.begin_step(t)
        context.frontier = nodes
        changed = None if "every_step" in self.state.noise else self._changed
        written = self.shown if changed is None else self.shown.index_select(0, changed)
        context.project(self.state.step(t), changed, self._read(written, changed, t))
        if nodes is None:
            self._active = self.shown[: context.num_dst]
        else:
            self._active = self.shown.index_select(0, nodes)
        return self._read(self._active, nodes, t)

    def _read(self, rows: Tensor, nodes: Tensor | None, t: int) -> Tensor:
        """Return `rows`, the states of `nodes` (None: first nodes), plus encodings and noise."""
        added = self._encodings
        if added is not None:
            rows = rows + (added[: len(rows)] if nodes is None else added.index_select(0, nodes))
        noise = self.state.noise
        return with_noise(noise, "every_step", rows, nodes, t) if noise else rows

    def end_step(self, before: Tensor, after: Tensor, t: int) -> None:
        """Update states that neighbours read, if they change enough; find the next active nodes."""
        nodes, shown, state = self.nodes, self._active, self.state
        assert shown is not None
        change = squared_change(after, shown, relative=state.plan.steps[0].norm == "pre")
        decided = change.detach()
        if not isfinite(decided.sum().item()):
            self._check_finite(after, t)
        moved = self.rule.changes(after, shown, decided).nonzero().flatten()
        self._count(t)
        self._accept(after, moved, t)
        self._wake()
        # The first round has checked the arguments of attention.
        state.trusts_arguments = self.context.owns_table
        if state.rows is not None:
            ids = torch.arange(len(after), device=after.device) if nodes is None else nodes
            states = state.readout(self.shown.index_select(0, ids))
            weights = torch.zeros_like(decided).index_fill(0, moved, 1.0)
            state.rows.append(FrontierRows(ids, states, weights, None, change))

    def _accept(self, new: Tensor, moved: Tensor, t: int) -> None:
        """Copy the `new` states of active nodes with indices `moved` to what neighbours read."""
        changed = self.nodes
        if len(moved) < len(new):
            new = new.index_select(0, moved)
            changed = moved if self.nodes is None else self.nodes.index_select(0, moved)
        if changed is None:
            self._last_change.fill_(t)
        else:
            self._last_change.index_fill_(0, changed, t)
        self._changed, new = self.state.with_halo(changed, new)
        table, nodes = self.shown, self._changed
        if new.dtype != table.dtype:
            wide = torch.promote_types(new.dtype, table.dtype)
            table, new = table.to(wide), new.to(wide)
        if nodes is None:
            self.shown = torch.cat([new, table[len(new) :]])
        elif self._track:
            self.shown = table.index_copy(0, nodes, new)
        else:
            self.shown = table.index_copy_(0, nodes, new)

    def _wake(self) -> None:
        """Find the active nodes of the next round: changed nodes and their out-neighbours."""
        changed, size = self._changed, self.context.num_dst
        if changed is None:
            return
        self.nodes = changed
        if len(changed):
            self.nodes = with_out_neighbours(self.context.layout, changed)
        self.num_active = len(self.nodes)
        if self.num_active == size:
            self.nodes = None

    def _count(self, t: int) -> None:
        """Count a round of each graph with active nodes, and an update of each active node."""
        nodes = self.nodes
        self._sizes.append(self.num_active)
        self.context.work.fold()
        if nodes is None:
            self._updates += 1
        else:
            self._updates.index_add_(0, nodes, self._ones[: len(nodes)])
        graphs = self._graphs()
        if isinstance(graphs, slice):
            self._rounds += 1
        else:  # a graph of several nodes counts once
            self._rounds.index_copy_(0, graphs, self._rounds.index_select(0, graphs) + 1)

    def _graphs(self) -> Tensor | slice:
        """Return the index of each active node's graph, or `slice(None)` for a single graph."""
        batch = self.state.batch
        if batch is None:
            return slice(None)
        return batch.graph if self.nodes is None else batch.graph.index_select(0, self.nodes)

    def _check_finite(self, new: Tensor, t: int) -> None:
        """Raise an error if a new state is not finite."""
        entries = (~new.isfinite()).nonzero()
        if len(entries):
            row, column = entries[0].tolist()
            node = row if self.nodes is None else int(self.nodes[row])
            raise ValueError(
                f"feature {column} of node {node} is {new[row, column].item()} in round {t}: a "
                "weight of the model or a state that the node reads is not finite"
            )

    def result(self) -> LoopOutput:
        """Return the output (states that neighbours read), update counts, and `Ponder` fields."""
        updates = self._updates
        awake = torch.arange(self.num_active, device=updates.device)
        if self.nodes is not None:
            awake = self.nodes
        quiescent = torch.ones_like(self._rounds, dtype=torch.bool)
        if self.state.any_active(self.num_active):
            quiescent[self._graphs()] = False
        rows = self.state.rows
        record = {
            "awake": awake,
            "last_change": self._last_change,
            "rounds": self._rounds,
            "quiescent": quiescent,
            "round_sizes": self._sizes,
            "frontiers": None if rows is None else [each.nodes for each in rows],
        }
        return waking_output(self.context, self.shown, updates, record)


def waking_output(
    context: GraphContext, shown: Tensor, updates: Tensor, record: dict[str, Any]
) -> LoopOutput:
    """Return the results of a run; `record` has fields of `Ponder`."""
    context.work.computed = updates.sum()
    context.work.edges = (updates * context.layout.in_degrees).sum()
    shown = shown[: context.num_dst]
    zeros = torch.zeros_like(updates, dtype=torch.promote_types(shown.dtype, torch.float32))
    return LoopOutput(shown, updates, zeros, zeros, {"shown": shown, **record})
