"""The adaptive loop: repeat a step until every node has halted."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from graphut.nn.call import Call, LoopOutput
from graphut.nn.noise import with_noise
from graphut.nn.rules import FixedDepth
from graphut.nn.rules.base import RuleState


def repeat_until_halted(call: Call) -> LoopOutput:
    """Repeat the step for the nodes that have not halted, and return the results of all nodes.

    `rows` are the states of the nodes that the last step computed, with the ids `computed`. `keep`
    are the indices of the rows whose nodes are still active, and `nodes` their ids. None means all.
    A node that has just halted is among `rows` for one more step, because the stored keys and
    values are older than its final state. Sources that are no destinations count as halted before
    the first step.
    """
    store, halted, noise, encodings = call.store, call.halted, call.noise, call.encodings
    rows, table, size = call.feat, call.feat, store.num_dst
    computed = nodes = keep = None
    if rows.shape[0] > size:
        nodes = keep = torch.arange(size, device=rows.device)
    decided = RuleState(call.rule, rows if keep is None else rows[:size], call.batch)
    results: Any = _WhileRunning(call, size) if call.runs_on else _AtHalting(call, size)
    is_untied = len(call.steps) > 1  # whether each step has its own maps
    linear = not is_untied and call.step(1).has_linear_projection
    rewrites_all = call.exchange is None and not call.fills_cache
    decides = call.rows is not None or not isinstance(call.rule, FixedDepth)
    if call.rule.min_steps == 0:  # some nodes halt before the first step
        first = rows[:size]
        at_once = call.decide(decided, first, first, 0, nodes, None, results.active)
        if (left := results.add(decided, at_once, 0, nodes)) is not None:
            nodes = keep = left
            decided.keep(left)
    for t in range(1, call.max_steps + 1):
        if not (call.fills_cache or call.any_active(results.num_active)):
            break
        step, signal = call.step(t), None if call.signal_of is None else call.signal_of[t - 1]
        store.begin_step(t)
        seen = _plus(rows, encodings)
        seen = with_noise(noise, "every_step", seen, computed, t) if noise else seen
        before = _plus(_select(seen, keep), signal)

        # Store the keys and values that have changed since the last step.
        moves = halted == "copied" and signal is not None  # whether all values change
        if nodes is None and rewrites_all:
            changed, read, table = None, before, seen if moves else before
        else:
            if halted == "stale" and t > 1:
                changed, read = nodes, before
            else:
                changed, read = computed, _plus(seen, None if moves else signal)
            changed, read = call.with_halo(changed, read)
            if moves and linear:  # by one vector, which is added after attention
                store.value_shift = step.value_shift(signal)
            elif moves or is_untied:
                if changed is not None:
                    read = table[: store.layout.num_src].index_copy(0, changed, read)
                changed, table, read = None, read, _plus(read, signal if moves else None)
        store_rows(call, step, changed, read)
        if not results.num_active and call.fills_cache:  # later tokens may take more steps
            if halted == "copied" and not linear:
                continue
            break

        if store.num_dst < size:  # each sampled block has fewer destinations
            size = store.num_dst
            nodes, keep = _below(size, nodes, keep, rows)
            before = before[: len(nodes)]
            results.keep_first(size, len(nodes))
            decided.keep_first(len(nodes))
        store.frontier = nodes if nodes is None or len(nodes) < size else None
        after = run_step(call, step, before, t, nodes)
        halts = None
        if decides or t == call.max_steps:
            last = None if call.rows is None else _select(rows, keep)
            halts = call.decide(decided, before, after, t, nodes, last, results.active)
        if encodings is not None:
            encodings = _select(encodings, keep)
        rows, computed = after, nodes
        keep = None if halts is None else results.add(decided, halts, t, nodes)
        if keep is not None:
            nodes = keep if nodes is None else nodes.index_select(0, keep)
            decided.keep(keep)
    return results.result(decided)


def store_rows(call: Call, step: Any, nodes: Tensor | None, read: Tensor) -> None:
    """Project what neighbours `read` of `nodes` (None: all) to keys and values, and store them."""
    if call.checkpoints:  # `run_step` projects the states
        call.store.write(nodes, read)
        call.store.work.projections[-1] = (call.store.layout.num_src, None)
    else:
        call.store.write(nodes, step.project(read, call.store.layout, nodes))


def run_step(call: Call, step: Any, rows: Tensor, t: int, nodes: Tensor | None) -> Tensor:
    """Run step `t` on its input for the active `nodes`, `(A, d)`, and return their new states."""
    store, quantize = call.store, call.quantize
    new: Tensor = _run_again(step, store, rows) if call.checkpoints else step(store, rows)
    store.count_step()
    if quantize is None:
        return new
    return quantize.round(with_noise(call.noise, "quantized", new, nodes, t))


def _run_again(step: Any, store: Any, rows: Tensor) -> Tensor:
    """Run a step that the backward pass runs again, with the states as its key/value table."""
    if store.encoded is not None:  # projected once for all steps
        store.encoded.stored(step.cross_attention)
    # The second run must not see the results of later steps.
    begun = store.branch(store.table)

    def run(states: Tensor, rows: Tensor) -> tuple[Any, ...]:
        branch = begun.branch(step.project(states, begun.layout))
        return step(branch, rows), branch.combined, branch.weights, branch.cross_weights

    new, store.combined, weights, cross_weights = checkpoint(
        run, store.table, rows, use_reentrant=False
    )
    store.weights += weights
    store.cross_weights += cross_weights
    return new


class _AtHalting:
    """The results of nodes, stored when they halt."""

    active = None  # nodes that have halted are not computed

    def __init__(self, call: Call, size: int) -> None:
        self.call, self.num_active = call, max(size, 1)  # without nodes, the steps run all the same
        # For each step: nodes that halted (None: all), their steps, output, remainder and cost.
        self.finished: list[tuple[Any, ...]] = []

    def keep_first(self, size: int, num_active: int) -> None:
        """Forget the nodes from `size` on; `num_active` nodes are left."""
        self.num_active = num_active

    def add(self, decided: RuleState, halts: Tensor, t: int, nodes: Tensor | None) -> Tensor | None:
        """Store the results of nodes that halt; return the indices of the others (None: all)."""
        rows, is_last = halts.shape[0], t == self.call.max_steps
        count = rows if is_last else int(torch.count_nonzero(halts))
        if not count and (self.finished or not is_last):
            return None
        self.num_active -= count
        keep, columns = None, [decided.out, decided.remainder, decided.cost]
        if count == rows:
            keep = halts.new_empty(0, dtype=torch.int64)
        else:
            gone, keep = halts.nonzero()[:, 0], (~halts).nonzero()[:, 0]
            nodes = gone if nodes is None else nodes.index_select(0, gone)
            columns = [column.index_select(0, gone) for column in columns]
        steps = torch.full(columns[0].shape[:1], t, device=halts.device)
        self.finished.append((nodes, steps, *columns))
        return keep

    def result(self, decided: RuleState) -> LoopOutput:
        """Return the output, number of steps, ACT remainder and ponder cost of each node."""
        size = self.call.num_dst
        if len(self.finished) == 1 and self.finished[0][0] is None:  # all nodes halted together
            steps, *columns = (_first(column, size) for column in self.finished[0][1:])
        else:
            nodes, *parts = map(torch.cat, zip(*self.finished, strict=True))
            row_of = nodes.new_empty(len(self.call.feat))
            row_of.index_copy_(0, nodes, torch.arange(len(nodes), device=nodes.device))
            steps, *columns = (part.index_select(0, row_of[:size]) for part in parts)
        out, remainder, cost = columns
        return LoopOutput(out, steps, remainder, cost)


class _WhileRunning:
    """The results of nodes that all go on computing; a mask protects those that have halted."""

    def __init__(self, call: Call, size: int) -> None:
        self.call, self.num_active = call, max(size, 1)
        self.active = torch.ones(size, dtype=torch.bool, device=call.feat.device)
        self.steps = torch.zeros_like(self.active, dtype=torch.int64)
        wide = torch.promote_types(call.feat.dtype, torch.float32)
        self.remainder, self.cost = call.feat.new_zeros(2, size, dtype=wide)

    def keep_first(self, size: int, num_active: int) -> None:
        """Forget the nodes from `size` on."""
        self.active, self.steps = self.active[:size], self.steps[:size]
        self.remainder, self.cost = self.remainder[:size], self.cost[:size]

    def add(self, decided: RuleState, halts: Tensor, t: int, nodes: Tensor | None) -> None:
        """Store the results of nodes that halt."""
        call, self.steps = self.call, self.steps + self.active * (t > 0)
        self.remainder = torch.where(halts, decided.remainder, self.remainder)
        self.cost = torch.where(halts, decided.cost, self.cost)
        self.active = self.active & ~halts
        if call.waits and not (call.fills_cache or call.is_traced):
            self.num_active = int(self.active.sum())

    def result(self, decided: RuleState) -> LoopOutput:
        """Return the output, number of steps, ACT remainder and ponder cost of each node."""
        size = self.call.num_dst
        if size < len(self.steps):
            self.keep_first(size, 0)
        return LoopOutput(_first(decided.out, size), self.steps, self.remainder, self.cost)


def _plus(rows: Tensor, added: Tensor | None) -> Tensor:
    return rows if added is None else rows + added


def _select(rows: Tensor, keep: Tensor | None) -> Tensor:
    return rows if keep is None else rows.index_select(0, keep)


def _first(rows: Tensor, size: int) -> Tensor:
    return rows if rows.shape[0] == size else rows[:size]  # no view without need


def _below(
    size: int, nodes: Tensor | None, keep: Tensor | None, rows: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the active nodes with ids below `size`, and the indices of their rows."""
    every = torch.arange(rows.shape[0], device=rows.device)
    nodes, keep = every if nodes is None else nodes, every if keep is None else keep
    count = int((nodes < size).sum())
    return nodes[:count], keep[:count]
