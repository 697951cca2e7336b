"""The adaptive loop: choose a backend for a call, and repeat its step until every node halts."""

from typing import Any

import torch
from torch import Tensor

from graphut.attention.key_value_memory import KeyValueMemory
from graphut.attention.tracing import is_capturing
from graphut.nn.attention import MultiHeadAttention
from graphut.nn.call import FINITE_CHECKS, Call, LoopOutput
from graphut.nn.noise import with_noise
from graphut.nn.rules import FixedDepth
from graphut.nn.rules.base import RuleState


def run_call(call: Call, start: Any = None) -> LoopOutput:
    """Run the steps of a call, from the state `start` if given; return the results of all nodes."""
    choose_backend(call)
    if call.program is not None:
        from graphut.nn.gpu import run_program

        output: LoopOutput | None = run_program(call)
        if output is not None:
            return output
        call.checks = FINITE_CHECKS
        choose_backend(call)  # which knows that the program has failed
    if not call.is_traced:
        call.checks.check_features(call.given)
    if call.is_waking:
        from graphut.nn.waking import repeat_until_quiescent

        return repeat_until_quiescent(call, start)
    return repeat_until_halted(call)


def choose_backend(call: Call) -> None:
    """Let the attention layers read a `KeyValueMemory`, or a program run the call on a GPU."""
    store, feat = call.store, call.feat
    if feat.is_cuda and is_capturing():
        return
    if call.rows is None and not store.edge_options:
        attention: Any = None
        for step in call.steps:
            attention = step.attention
            if not (
                isinstance(attention, MultiHeadAttention)
                and attention.fits_memory(store.layout, feat)
            ):
                break
        else:
            store.memory = KeyValueMemory(attention.num_heads)
        if feat.is_cuda:
            from graphut.nn.gpu import AsyncFiniteChecks, program_of

            call.program, call.waits = program_of(call)
            if not call.waits:
                call.checks = AsyncFiniteChecks(call.layer)
    if call.waits and store.encoded is not None and not store.get_attention:
        between: Any = store.cross_layout
        cross = [step.cross_attention for step in call.steps]
        store.encoded.in_place = all(
            isinstance(each, MultiHeadAttention) and each.fits_memory(between, feat)
            for each in cross
        )


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
    linear = None if halted == "copied" and not is_untied else False
    decides = call.rows is not None or not isinstance(call.rule, FixedDepth)
    if call.rule.min_steps == 0:  # some nodes halt before the first step
        first = rows[:size]
        at_once = call.decide(decided, first, first, 0, nodes, None, results.active)
        if (left := results.add(decided, at_once, 0, nodes)) is not None:
            nodes = keep = left
            decided.keep(left)
    for t in range(1, call.max_steps + 1):
        if not store.any_active(results.num_active):
            break
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
        after = call.run_step(step, before, t, nodes)
        halts = None
        if decides or t == call.max_steps:
            last = None
            if call.rows is not None:
                last = rows if keep is None else rows.index_select(0, keep)
            halts = call.decide(decided, before, after, t, nodes, last, results.active)
        if encodings is not None and keep is not None:
            encodings = encodings.index_select(0, keep)
        rows, computed = after, nodes
        keep = None if halts is None else results.add(decided, halts, t, nodes)
        if keep is not None:
            nodes = keep if nodes is None else nodes.index_select(0, keep)
            decided.keep(keep)
    return results.result(decided)


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
