"""The event-driven frontier: a node wakes when something that it reads has changed.

See `graphut.nn.EventDriven` for the rule. `WakingFrontier` holds the shown states, and decides
after each round which of them change and which nodes compute next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from graphut.attention import EdgeLayout
from graphut.attention.sorting import sort_edges
from graphut.nn.context import GraphContext
from graphut.nn.noise import Noise, with_noise
from graphut.nn.ponder import WakingRecord
from graphut.nn.rules.base import GraphMembers
from graphut.nn.rules.event_driven import EventDriven
from graphut.nn.signals import Signal
from graphut.nn.step import UniversalTransformerStep
from graphut.nn.transition import SeparableConvTransition


class Start(NamedTuple):
    """Where an event-driven run continues."""

    shown: Tensor  # (M, d) shown states of the first nodes; later nodes are new
    frontier: Tensor  # (A,) sorted nodes of the first round


class OutEdges(NamedTuple):
    """The edges of a graph by source."""

    starts: Tensor  # (N_src + 1,) first edge of each source
    targets: Tensor  # (E,) destination of each edge


def out_edges(layout: EdgeLayout) -> OutEdges:
    """Return the edges by source.

    Examples
    --------
    >>> from graphut.topology import Causal
    >>> out_edges(Causal().layout([3])).targets
    tensor([0, 1, 2, 1, 2, 2])
    """
    rows = torch.repeat_interleave(layout.in_degrees, output_size=layout.num_edges)
    starts, targets, _ = sort_edges(rows, layout.sources(), layout.num_dst, layout.num_src)
    return OutEdges(starts, targets)


def with_out_neighbours(layout: EdgeLayout, nodes: Tensor) -> Tensor:
    """Return the destinations among `nodes` and all their out-neighbours, sorted and unique.

    Examples
    --------
    >>> from graphut.topology import Window
    >>> with_out_neighbours(Window(1).layout([9]), torch.tensor([3, 4]))
    tensor([2, 3, 4, 5])
    """
    starts, targets = layout.derive(out_edges)
    first = starts.index_select(0, nodes)
    degree = starts.index_select(0, nodes + 1) - first
    edge = torch.repeat_interleave(first - degree.cumsum(0) + degree, degree)
    edge += torch.arange(len(edge), device=edge.device)
    reached = targets.index_select(0, edge)
    size = layout.num_dst
    if size < layout.num_src:
        nodes = nodes[nodes < size]
    if 8 * (len(nodes) + len(reached)) < size:
        return torch.cat([nodes, reached]).unique()
    # As many nodes as a fraction of the graph: a mask is faster than sorting.
    awake = torch.zeros(size, dtype=torch.bool, device=nodes.device)
    awake[nodes] = True
    awake[reached] = True
    return awake.nonzero()[:, 0]


def start_of_changes(
    layout: EdgeLayout,
    shown: Tensor,
    feat: Tensor,
    changed: Tensor | None,
    edges_into: Tensor | None,
) -> Start:
    """Return where a run continues after changes; see `AdaptiveRecurrence.resume`."""
    num_src, num_dst, old = layout.num_src, layout.num_dst, len(shown)
    if shown.dim() != 2 or shown.shape[1] != feat.shape[-1] or old > num_dst:
        raise ValueError(
            f"shown must be (M, {feat.shape[-1]}) with at most {num_dst} rows, one for each old "
            f"node; got shape {tuple(shown.shape)}"
        )
    none = torch.zeros(0, dtype=torch.int64, device=layout.device)
    changed = _checked_ids("changed", changed, num_src, none)
    edges_into = _checked_ids("edges_into", edges_into, num_dst, none)
    new = torch.arange(old, num_dst, device=layout.device)
    awake = with_out_neighbours(layout, torch.cat([changed, new]))
    return Start(shown, torch.cat([awake, edges_into]).unique())


def _checked_ids(name: str, ids: Tensor | None, size: int, none: Tensor) -> Tensor:
    if ids is None:
        return none
    if not isinstance(ids, Tensor) or ids.dtype != torch.int64 or ids.dim() != 1:
        raise TypeError(f"{name} must be a 1-D int64 tensor of node ids, got {ids!r}")
    if ids.numel() and not (int(ids.min()) >= 0 and int(ids.max()) < size):
        wrong = ids[(ids < 0) | (ids >= size)]
        raise ValueError(f"{name} contains node {int(wrong[0])}, but there are {size} such nodes")
    return ids.to(none.device)


def check_event_driven(
    rule: EventDriven, step: nn.Module, halting: nn.Module | None, step_signal: Signal | None
) -> None:
    """Raise `ValueError` if an event-driven run of a recurrence would not be exact."""
    if isinstance(step, nn.ModuleList):
        raise ValueError(f"{rule} needs one step for all repetitions, not {len(step)} steps")
    assert isinstance(step, UniversalTransformerStep)
    norms = [type(part).__name__ for part in step.modules() if isinstance(part, _BatchNorm)]
    wrong = ""
    if step_signal is not None:
        wrong = "a step signal, because sleeping nodes miss rounds: give step_signal=None"
    elif halting is not None:
        wrong = "a halting module, because no node halts for good: give halting=None"
    elif step.cross_attention is not None:
        wrong = "a decoder step, because the nodes that read it would wake with every token"
    elif isinstance(step.transition, SeparableConvTransition):
        wrong = "a separable convolution, which reads other nodes than in-neighbours"
    elif norms:
        wrong = f"{norms[0]}, whose statistics depend on which nodes are awake"
    if wrong:
        raise ValueError(f"{rule} cannot be used with {wrong}")


def squared_change(new: Tensor, shown: Tensor, *, relative: bool) -> Tensor:
    """Return the squared distance of new states `(A, d)` from the shown ones, `(A,)`.

    It is the mean over features, in float32 or wider. With `relative` it is divided by the mean
    square of the shown state.
    """
    wide = torch.promote_types(torch.promote_types(new.dtype, shown.dtype), torch.float32)
    new, shown = new.to(wide), shown.to(wide)
    change = (new - shown).square().mean(1)
    if relative:
        change = change / shown.square().mean(1).clamp_min(torch.finfo(wide).eps ** 2)
    return change


@dataclass
class WakingFrontier:
    """The shown states, and the nodes that compute in the next round."""

    context: GraphContext
    rule: EventDriven
    shown: Tensor  # (N_src, d) of all nodes
    nodes: Tensor | None  # (A,) sorted nodes of the frontier; None for all destinations
    encodings: Tensor | None  # (N_src, d) added to each shown state: positions and injected states
    noise: Noise
    members: GraphMembers | None  # the graph of each node; None for a single graph
    relative: bool  # whether a change is measured relative to the state
    track: bool  # whether gradients are recorded, so that no tensor is written in place

    def __post_init__(self) -> None:
        """Begin with the shown states and the frontier of the first round."""
        shown = self.shown
        if not self.track:  # written in place later, while the caller keeps its own tensor
            self.shown = shown.clone()
        num_dst = self.context.num_dst
        self.num_active = num_dst if self.nodes is None else len(self.nodes)
        self._active: Tensor | None = None  # (A, d) shown states of the frontier
        self._changed: Tensor | None = None  # nodes that changed in the last round; None for all
        one = torch.ones(num_dst, dtype=torch.int64, device=shown.device)
        self._ones = one
        self._updates, self._last_change = torch.zeros_like(one), torch.zeros_like(one)
        graphs = 1 if self.members is None else self.members.num_graphs
        self._rounds = one.new_zeros(graphs)
        self._sizes: list[int] = []

    def refresh_keys_and_values(self, step: UniversalTransformerStep, t: int) -> Tensor:
        """Project the changed rows; return what the rows of the frontier read of themselves."""
        context, nodes = self.context, self.nodes
        context.begin_step(t)
        context.frontier = nodes
        changed = None if "every_step" in self.noise else self._changed
        written = self.shown if changed is None else self.shown.index_select(0, changed)
        context.write(changed, step.project(self._read(written, changed, t)))
        if nodes is None:
            self._active = self.shown[: context.num_dst]
        else:
            self._active = self.shown.index_select(0, nodes)
        return self._read(self._active, nodes, t)

    def _read(self, rows: Tensor, nodes: Tensor | None, t: int) -> Tensor:
        """Return shown states of `nodes`, or of the first nodes, with encodings and noise."""
        if self.encodings is not None:
            own = self.encodings
            rows = rows + (own[: len(rows)] if nodes is None else own.index_select(0, nodes))
        return with_noise(self.noise, "every_step", rows, nodes, t)

    def end_round(self, new: Tensor, t: int) -> tuple[Tensor, Tensor]:
        """Accept the new states that differ enough, and find the next frontier.

        Returns
        -------
        tuple of Tensor
            `(A,)` squared change of each row of the frontier, and the rows whose state changed.
        """
        context, nodes, shown = self.context, self.nodes, self._active
        assert shown is not None
        change = squared_change(new, shown, relative=self.relative)
        decided = change.detach()
        moved = (~(decided <= self.rule.tol**2)).nonzero()[:, 0]
        if len(moved) and not bool(decided.sum().isfinite()):
            self._check_finite(new, t)
        self._count(nodes, t)
        all_moved = len(moved) == len(new)
        if all_moved:
            self._changed = nodes
        else:
            new = new.index_select(0, moved)
            self._changed = moved if nodes is None else nodes.index_select(0, moved)
        self._write(self._changed, new)
        if self._changed is None:
            self._last_change.fill_(t)
            self.num_active = context.num_dst
        elif not len(moved):
            self.nodes, self.num_active = moved, 0
        else:
            self._last_change.index_fill_(0, self._changed, t)
            self.nodes = with_out_neighbours(context.layout, self._changed)
            self.num_active = len(self.nodes)
            if self.num_active == context.num_dst:
                self.nodes = None
        context.work.fold()
        return change, moved

    def _write(self, nodes: Tensor | None, new: Tensor) -> None:
        """Replace the shown states of `nodes`, or of all destinations."""
        wide = torch.promote_types(new.dtype, self.shown.dtype)
        table, new = self.shown.to(wide), new.to(wide)
        if not self.track:
            self.shown = table
            if nodes is None:
                table[: len(new)] = new
            else:
                table.index_copy_(0, nodes, new)
        elif nodes is None:
            self.shown = torch.cat([new, table[len(new) :]])
        else:
            self.shown = table.index_copy(0, nodes, new)

    def _count(self, nodes: Tensor | None, t: int) -> None:
        """Count an update of each row of the frontier, and a round of their graphs."""
        self._sizes.append(self.num_active)
        if nodes is None:
            self._updates += 1
        else:
            self._updates.index_add_(0, nodes, self._ones[: len(nodes)])
        if self.members is None:
            self._rounds += 1
        else:
            graph = self.members.graph if nodes is None else self.members.graph[nodes]
            self._rounds[graph] = self._rounds[graph] + 1

    def _check_finite(self, new: Tensor, t: int) -> None:
        """Raise if a new state is not finite."""
        wrong = (~new.isfinite()).nonzero()
        if len(wrong):
            row, column = wrong[0].tolist()
            node = row if self.nodes is None else int(self.nodes[row])
            raise ValueError(
                f"feature {column} of node {node} is {new[row, column].item()} in round {t}: a "
                "weight of the model or a state that the node reads is not finite"
            )

    def record(self) -> WakingRecord:
        """Return the record of all rounds."""
        num_dst = self.context.num_dst
        edges = (self._updates * self.context.layout.in_degrees).sum()
        self.context.work.add(computed=self._updates.sum(), edges=edges)
        quiescent = torch.ones_like(self._rounds, dtype=torch.bool)
        if self.num_active:
            awake: Tensor | slice = slice(None) if self.nodes is None else self.nodes
            quiescent[0 if self.members is None else self.members.graph[awake]] = False
        return WakingRecord(
            shown=self.shown[:num_dst],
            updates=self._updates,
            last_change=self._last_change,
            rounds=self._rounds,
            quiescent=quiescent,
            frontier_sizes=self._sizes,
        )
