"""The adaptive loop: repeat the step of a call until every node has halted."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from graphut.nn.noise import with_noise
from graphut.nn.rules import FixedDepth
from graphut.nn.rules.base import RuleState, StepRows

if TYPE_CHECKING:
    from graphut.nn.call import Call


class FrontierRows(NamedTuple):
    """The `A` active nodes of one step, and their new states."""

    nodes: Tensor  #: (A,) int64, ids of the active nodes
    states: Tensor  #: (A, d) new states, after the output norm if there is one
    #: (A,) weights of these states in the output; with `EventDriven` 1 for states that changed
    weights: Tensor
    probability: Tensor | None  #: (A,) halting probabilities; None without a halting module
    #: (A,) mean square change of the state, for a penalty on change; with `norm="pre"` it is
    #: divided by the mean square of the state before the step
    change: Tensor
    #: (A,) bool, nodes that the rule itself halts, even without a limit; None with `EventDriven`
    halts: Tensor | None = None


class LoopOutput(NamedTuple):
    """The results of a loop, for all nodes."""

    out: Tensor  # (N, d) output states
    steps: Tensor  # (N,) int64
    remainder: Tensor  # (N,)
    cost: Tensor  # (N,) ponder cost of each node
    waking: dict[str, Any] | None = None  # more fields of `Ponder`, with `EventDriven`


def repeat_until_halted(call: Call) -> LoopOutput:
    """Repeat the step for the nodes that have not halted, and return the results of all nodes.

    `rows` are the states of the nodes that the last step computed, with the ids `computed`. `keep`
    are the indices of the rows whose nodes are still active, and `nodes` their ids. None means all.
    A node that has just halted is among `rows` for one more step, because the stored keys and
    values are older than its final state. Sources that are no destinations count as halted before
    the first step.
    """
    store, halted, noise, encodings = call.store, call.halted, call.noise, call.encodings
    rows = table = call.feat
    size = call.num_dst
    computed = nodes = keep = None
    if rows.shape[0] > size:
        nodes = keep = torch.arange(size, device=rows.device)
    decided = RuleState(call.rule, rows if keep is None else rows[:size], call.batch)
    results: Any = _WhileRunning(call, size) if call.runs_on else _AtHalting(call, size)
    is_untied = len(call.steps) > 1  # whether each step has its own maps
    linear = None if halted == "copied" and not is_untied else False  # None: not known yet
    decides = call.rows is not None or not isinstance(call.rule, FixedDepth)
    if call.rule.min_steps == 0:  # some nodes halt before the first step
        first = rows[:size]
        at_once = decide(call, decided, first, first, 0, nodes, None, results.active)
        if (left := results.add(decided, at_once, 0, nodes)) is not None:
            nodes = keep = left
            decided.keep(left)
    for t in range(1, call.max_steps + 1) if store.any_active(results.num_active) else ():
        step = call.steps[t - 1 if is_untied else 0]
        signal = None if call.signal_of is None else call.signal_of[t - 1]
        store.step, store.value_shift = t, None
        seen = rows if encodings is None else rows + encodings
        seen = with_noise(noise, "every_step", seen, computed, t) if noise else seen
        before = seen if keep is None else seen.index_select(0, keep)
        before = before if signal is None else before + signal

        # Store the keys and values that have changed since the last step.
        added = signal if halted == "copied" else None  # to all values, which so change
        if nodes is None and store.replaces_all:
            changed, read, table = None, before, before if added is None else seen
        else:
            if halted == "stale" and t > 1:
                changed, read = nodes, before
            else:
                changed = computed
                read = seen if halted == "copied" or signal is None else seen + signal
            changed, read = store.received(changed, read)
            if added is not None and linear is None:
                linear = step.has_linear_projection
            if added is not None and linear:  # by one vector, which is added after attention
                store.value_shift = step.value_shift(added)
            elif added is not None or is_untied:
                if changed is not None:
                    read = table.index_copy(0, changed, read)
                changed, table, read = None, read, read if added is None else read + added
        store.write(changed, step.project(read, store.layout, changed))
        if not results.num_active and store.is_cache:  # later tokens may take more steps
            if halted == "copied" and not linear:
                continue
            break

        store.frontier = nodes if nodes is None or nodes.shape[0] < size else None
        after = run_step(call, step, before, t, nodes)
        halts = None
        if decides or t == call.max_steps:
            last = None
            if call.rows is not None:
                last = rows if keep is None else rows.index_select(0, keep)
            halts = decide(call, decided, before, after, t, nodes, last, results.active)
        if encodings is not None and keep is not None:
            encodings = encodings.index_select(0, keep)
        rows, computed = after, nodes
        keep = None if halts is None else results.add(decided, halts, t, nodes)
        if t == call.max_steps or not store.any_active(results.num_active):
            break
        if keep is not None:
            nodes = keep if nodes is None else nodes.index_select(0, keep)
            decided.keep(keep)
    return results.result(decided)


def run_step(call: Call, step: Any, rows: Tensor, t: int, nodes: Tensor | None) -> Tensor:
    """Run step `t` on its input for the active `nodes`, `(A, d)`; return their new states."""
    store, quantize = call.store, call.quantize
    new: Tensor = step(store, rows)
    store.work.computed += rows.shape[0]
    store.work.attended.append((store.layout, store.frontier))
    if store.cross_layout is not None:
        store.work.attended.append((store.cross_layout, store.frontier))
    if "quantized" in call.noise:
        new = with_noise(call.noise, "quantized", new, nodes, t)
    return new if quantize is None else quantize.round(new)


def decide(
    call: Call,
    state: RuleState,
    before: Tensor,
    after: Tensor,
    t: int,
    nodes: Tensor | None,
    last: Tensor | None,
    active: Tensor | None = None,
) -> Tensor:
    """Let the rule decide which nodes halt in step `t`; return a mask, `(A,)` bool.

    `before` and `after` are the input and the output of the step for `nodes` (None: all).
    If halted nodes go on computing, only those in the mask `active` can halt. If the call
    records its steps, append their rows; `last` are the states before the step.
    """
    probability = None
    if call.halting is not None:
        probability = call.halting(before if call.halt_from == "input" else after, nodes, t)
        if probability.shape != after.shape[:1] or not probability.is_floating_point():
            raise ValueError(
                f"the halting module returned {tuple(probability.shape)} of {probability.dtype} "
                f"for {after.shape[0]} rows; it must return ({after.shape[0]},) floating-point "
                "probabilities, one for each row (take [:, 0] of a column)"
            )
        if not call.is_traced:
            call.checks.check_probability(probability, nodes, t)
    rows = StepRows(before, after, probability, t, t == call.max_steps, call.store.all_reduce)
    halts = state.update(rows, active)
    if call.rows is not None and last is not None:
        nodes = torch.arange(len(after), device=after.device) if nodes is None else nodes
        change = squared_change(after, last, relative=call.steps[0].norm == "pre")
        states = call.steps[-1].readout(after)
        found: tuple[Any, ...] = nodes, states, state.weight, probability, change, state.chosen
        if active is not None:
            found = tuple(x if x is None else x[active] for x in found)
        call.rows.append(FrontierRows(*found))
    return halts


def squared_change(new: Tensor, old: Tensor, *, relative: bool) -> Tensor:
    """Return the mean square change from `old` to `new`, `(A, d)`, of each node, `(A,)`.

    It is in float32 or wider. If `relative`, it is divided by the mean square of `old`.
    """
    if new.dtype != old.dtype or new.element_size() < 4:
        wide = torch.promote_types(torch.promote_types(new.dtype, old.dtype), torch.float32)
        new, old = new.to(wide), old.to(wide)
    change = (new - old).square().mean(1)
    if relative:
        change = change / old.square().mean(1).clamp_min(torch.finfo(new.dtype).eps ** 2)
    return change


class _AtHalting:
    """The results of nodes, stored when they halt."""

    active = None  # nodes that have halted are not computed

    def __init__(self, call: Call, size: int) -> None:
        self.call, self.num_active = call, max(size, 1)  # without nodes, the steps run all the same
        # For each step: nodes that halted (None: all), their steps, output, remainder and cost.
        self.finished: list[tuple[Any, ...]] = []

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
        if len(self.finished) == 1 and self.finished[0][0] is None:  # all nodes halted together
            steps, *columns = self.finished[0][1:]
        else:
            nodes, *parts = map(torch.cat, zip(*self.finished, strict=True))
            row_of = torch.empty_like(nodes)
            row_of.index_copy_(0, nodes, torch.arange(nodes.shape[0], device=nodes.device))
            steps, *columns = (part.index_select(0, row_of) for part in parts)
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

    def add(self, decided: RuleState, halts: Tensor, t: int, nodes: Tensor | None) -> None:
        """Store the results of nodes that halt."""
        call, self.steps = self.call, self.steps + self.active * (t > 0)
        self.remainder = torch.where(halts, decided.remainder, self.remainder)
        self.cost = torch.where(halts, decided.cost, self.cost)
        self.active = self.active & ~halts
        if call.waits and not (call.store.is_cache or call.is_traced):
            self.num_active = int(self.active.sum())

    def result(self, decided: RuleState) -> LoopOutput:
        """Return the output, number of steps, ACT remainder and ponder cost of each node."""
        return LoopOutput(decided.out, self.steps, self.remainder, self.cost)


class FiniteChecks:
    """Checks of features and probabilities, for which the host waits."""

    def check_features(self, feat: Tensor) -> None:
        """Raise an error if a value of the initial states `feat`, `(N_src, d)`, is not finite."""
        # A sum needs one pass and no memory.
        if isfinite(feat.detach().sum().item()) or bool(feat.isfinite().all()):
            return
        node, column = (~feat.isfinite()).nonzero()[0].tolist()
        raise ValueError(
            f"feature {column} of node {node} is {feat[node, column].item()}; it must be finite"
        )

    def check_probability(self, probability: Tensor, nodes: Tensor | None, step: int) -> None:
        """Raise an error if a halting probability, `(A,)`, is NaN or outside [0, 1]."""
        if not probability.numel():
            return
        if probability.requires_grad:
            probability = probability.detach()
        low, high = probability.aminmax()
        if low.item() >= 0.0 and high.item() <= 1.0:  # False for NaN
            return
        row = int((~((probability >= 0.0) & (probability <= 1.0))).nonzero()[0])
        node = row if nodes is None else int(nodes[row])
        raise ValueError(probability_error(node, step, bool(probability[row].isnan())))


FINITE_CHECKS = FiniteChecks()


def probability_error(node: int, step: int, is_nan: bool) -> str:
    """Return the error message for a halting probability that is NaN or outside [0, 1]."""
    if is_nan:
        return (
            f"the halting probability of node {node} is NaN at step {step}: a weight of the model "
            "or a state that it attends to is not finite; lower the learning rate or clip gradients"
        )
    return (
        f"the halting probability of node {node} is outside of [0, 1] at step {step}; let the "
        "halting module end with a sigmoid"
    )
