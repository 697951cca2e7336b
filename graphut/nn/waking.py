"""The event-driven loop: a node computes when something that it reads has changed."""

from __future__ import annotations

from contextlib import nullcontext
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from graphut.attention import EdgeLayout
from graphut.attention.checks import check_index, check_range, skip_checks
from graphut.attention.kernel_library import sort_edges
from graphut.nn.layers import StepBatchNorm
from graphut.nn.loop import FrontierRows, LoopOutput, run_step, squared_change
from graphut.nn.noise import with_noise
from graphut.nn.ponder import Ponder
from graphut.nn.rules.change import EventDriven
from graphut.nn.separable_conv import SeparableConvTransition

if TYPE_CHECKING:
    from graphut.nn.call import Call

Ints = NDArray[np.int64]
_FEW = 256  # nodes


class Start(NamedTuple):
    """The states and nodes from which a run with the rule `EventDriven` continues."""

    shown: Tensor  # (M, d) shown states of the first nodes; later nodes are new
    frontier: Tensor  # (A,) sorted nodes of the first round


def check_event_driven(rule: Any, step: Any, halting: nn.Module | None, step_signal: Any) -> None:
    """Raise a `ValueError` if the parts of a recurrence do not support event-driven runs."""
    if isinstance(step, nn.ModuleList):
        raise ValueError(f"{rule} needs one step for all repetitions, not {len(step)} steps")
    unsupported = ""
    if step_signal is not None:
        unsupported = "a step signal, because sleeping nodes miss rounds: give step_signal=None"
    elif halting is not None:
        unsupported = "a halting module, because no node halts for good: give halting=None"
    elif step.cross_attention is not None:
        unsupported = "a decoder step, because the nodes that read it would wake with every token"
    elif isinstance(step.attention_norm, StepBatchNorm):
        unsupported = (
            "batch normalisation by steps, because sleeping nodes miss rounds: give LayerNorm, "
            "which is norm='layer' of AdaptiveConv"
        )
    elif isinstance(step.transition, SeparableConvTransition):
        unsupported = "a separable convolution, which reads other nodes than in-neighbours"
    if unsupported:
        raise ValueError(f"{rule} cannot be used with {unsupported}")


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
    if nodes.device.type == "cpu" and nodes.shape[0] < _FEW:
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
    ponder: Ponder,
    feat: Tensor,
    changed: Tensor | None,
    edges_into: Tensor | None,
) -> Start:
    """Return the states and nodes from which `AdaptiveRecurrence.resume` continues a run."""
    shown, awake = ponder.shown, ponder.awake
    if shown is None or awake is None:
        raise ValueError(f"{ponder} is not the record of a run with the rule EventDriven")
    num_src, num_dst, old = layout.num_src, layout.num_dst, len(shown)
    fits = shown.dtype == feat.dtype or torch.is_autocast_enabled(feat.device.type)
    fits = fits and shown.device == feat.device and shown.shape[1:] == feat.shape[1:]
    if not fits or old > num_dst:
        raise ValueError(
            f"ponder.shown must be (M, {feat.shape[-1]}) {feat.dtype} on {feat.device}, with at "
            f"most {num_dst} rows; got {tuple(shown.shape)} {shown.dtype} on {shown.device}"
        )
    changed = _checked_ids("changed", changed, num_src, layout)
    edges_into = _checked_ids("edges_into", edges_into, num_dst, layout)
    new = torch.arange(old, num_dst, device=layout.device)
    reached = with_out_neighbours(layout, torch.cat([changed, new]))
    return Start(shown, torch.cat([reached, edges_into, awake]).unique())


def _checked_ids(name: str, ids: Tensor | None, size: int, layout: EdgeLayout) -> Tensor:
    if ids is None:
        return torch.zeros(0, dtype=torch.int64, device=layout.device)
    check_index(name, ids)
    check_range(name, ids, size)
    return ids.to(layout.device)


def repeat_until_quiescent(call: Call, start: Start | None = None) -> LoopOutput:
    """Run rounds until no shown state changes, and return the results of all nodes.

    `nodes` are the ids of the frontier and `changed` of the nodes that changed in the last round.
    None means all.
    """
    store, rule, noise = call.store, call.rule, call.noise
    assert isinstance(rule, EventDriven)
    shown, encodings = call.feat, call.encodings
    _, shown = store.received(None, shown)
    if encodings is not None:
        _, encodings = store.received(None, encodings)
    nodes = changed = None
    step = call.steps[0]
    if start is not None:
        shown, nodes = torch.cat([start.shown, shown[len(start.shown) :]]), start.frontier
    in_place = not torch.is_grad_enabled()
    if in_place:  # the caller's tensor is copied
        shown, store.owns_table = shown.clone(), True
    is_checked = in_place and store.memory is None
    size, record = store.layout.num_dst, _Record(call)
    num_active = size if nodes is None else len(nodes)

    def read(rows: Tensor, nodes: Tensor | None, t: int) -> Tensor:
        """Return `rows`, the states of `nodes` (None: first nodes), plus encodings and noise."""
        if encodings is not None:
            rows = rows + (
                encodings[: len(rows)] if nodes is None else encodings.index_select(0, nodes)
            )
        return with_noise(noise, "every_step", rows, nodes, t) if noise else rows

    for t in range(1, call.max_steps + 1):
        if not store.any_active(num_active):
            break
        store.step = t
        if "every_step" in noise:
            changed = None
        seen = read(_rows_of(changed, shown), changed, t)
        store.write(changed, step.project(seen, store.layout, changed))
        store.frontier = nodes
        before = shown[:size] if nodes is None else shown.index_select(0, nodes)
        # The first round has checked the arguments of attention; a memory needs no checks.
        with skip_checks(True) if is_checked and t > 1 else nullcontext():
            after = run_step(call, step, read(before, nodes, t), t, nodes)
        change = squared_change(after, before, relative=step.norm == "pre")
        decided = change.detach()
        if not isfinite(decided.sum().item()):
            _check_finite(after, nodes, t)
        moved = rule.changes(after, before, decided).nonzero().flatten()
        new, changed = after, nodes
        if moved.shape[0] < after.shape[0]:
            new = after.index_select(0, moved)
            changed = moved if nodes is None else nodes.index_select(0, moved)
        record.note(nodes, changed, t)
        changed, new = store.received(changed, new)
        shown = _replace(shown, changed, new, in_place)
        if call.rows is not None:
            ids = torch.arange(size, device=after.device) if nodes is None else nodes
            weights = torch.zeros_like(decided).index_fill(0, moved, 1.0)
            states = step.readout(shown.index_select(0, ids))
            call.rows.append(FrontierRows(ids, states, weights, None, change))
        if changed is not None:
            nodes = with_out_neighbours(store.layout, changed) if changed.shape[0] else changed
            num_active = nodes.shape[0]
            nodes = None if num_active == size else nodes
    return record.result(shown, nodes, num_active)


def _rows_of(nodes: Tensor | None, table: Tensor) -> Tensor:
    return table if nodes is None else table.index_select(0, nodes)


def _replace(table: Tensor, nodes: Tensor | None, new: Tensor, in_place: bool) -> Tensor:
    """Return `table` with the rows of `nodes` (None: the first rows) replaced by `new`."""
    if new.dtype != table.dtype:
        wide = torch.promote_types(new.dtype, table.dtype)
        table, new = table.to(wide), new.to(wide)
    if nodes is None:
        return torch.cat([new, table[len(new) :]])
    return table.index_copy_(0, nodes, new) if in_place else table.index_copy(0, nodes, new)


def _check_finite(new: Tensor, nodes: Tensor | None, t: int) -> None:
    """Raise an error if a new state is not finite."""
    entries = (~new.isfinite()).nonzero()
    if len(entries):
        row, column = entries[0].tolist()
        node = row if nodes is None else int(nodes[row])
        raise ValueError(
            f"feature {column} of node {node} is {new[row, column].item()} in round {t}: a "
            "weight of the model or a state that the node reads is not finite"
        )


class _Record:
    """The updates and the last change of each node, and the rounds of each graph."""

    def __init__(self, call: Call) -> None:
        self.call, batch = call, call.batch
        self.graph = None if batch is None else batch.graph  # (N,) of each node; None for one graph
        self.ones = torch.ones(call.num_dst, dtype=torch.int64, device=call.feat.device)
        self.updates, self.last_change = (torch.zeros_like(self.ones) for _ in range(2))
        self.rounds = self.ones.new_zeros(1 if batch is None else batch.num_graphs)
        self.sizes: list[int] = []

    def note(self, nodes: Tensor | None, changed: Tensor | None, t: int) -> None:
        """Note that `nodes` were computed in round `t`, and that `changed` got new states."""
        self.call.store.work.attended.clear()  # which `edges` counts in the end
        if nodes is None:
            self.sizes.append(len(self.ones))
            self.updates += 1
        else:
            self.sizes.append(nodes.shape[0])  # `len` of a tensor takes several times as long
            self.updates.index_add_(0, nodes, self.ones[: nodes.shape[0]])
        if changed is None:
            self.last_change.fill_(t)
        else:
            self.last_change.index_fill_(0, changed, t)
        if self.graph is not None:  # a graph of several nodes counts once
            graphs = _rows_of(nodes, self.graph)
            self.rounds.index_copy_(0, graphs, self.rounds.index_select(0, graphs) + 1)

    def result(self, shown: Tensor, nodes: Tensor | None, num_active: int) -> LoopOutput:
        """Return the output (states that neighbours read), update counts, and `Ponder` fields."""
        quiescent = torch.ones_like(self.rounds, dtype=torch.bool)
        if self.graph is None:
            self.rounds += len(self.sizes)
        if self.call.store.any_active(num_active):
            quiescent[... if self.graph is None else _rows_of(nodes, self.graph)] = False
        store, rows, updates = self.call.store, self.call.rows, self.updates
        store.work.edges = (updates * store.layout.in_degrees).sum()
        shown = shown if len(shown) == len(updates) else shown[: len(updates)]
        zeros = torch.zeros_like(updates, dtype=torch.promote_types(shown.dtype, torch.float32))
        record = {
            "shown": shown,
            "awake": torch.arange(num_active, device=shown.device) if nodes is None else nodes,
            "last_change": self.last_change,
            "rounds": self.rounds,
            "quiescent": quiescent,
            "round_sizes": self.sizes,
            "frontiers": None if rows is None else [each.nodes for each in rows],
        }
        return LoopOutput(shown, updates, zeros, zeros, record)
