"""The state of one call of the adaptive loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphut.attention.argument_checks import skip_checks
from graphut.nn.context import GraphContext
from graphut.nn.finite_checks import FiniteChecks, check_probability_shape
from graphut.nn.noise import Noise, draw_noise, with_noise
from graphut.nn.plan import Plan
from graphut.nn.rules.base import BatchIndex, RuleState, StepRows
from graphut.nn.signals import encode, step_signals


class LoopOutput(NamedTuple):
    """The results of the adaptive loop, for all nodes."""

    out: Tensor  # (N, d) output states
    steps: Tensor  # (N,) int64
    remainder: Tensor  # (N,)
    cost: Tensor  # (N,) ponder cost of each node
    waking: dict[str, Any] | None = None  # more fields of `Ponder`, with `EventDriven`


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


class LoopState:
    """The tensors of one call of a recurrence that all its steps share, and its plan.

    `fill_cache` is for a decoder with a key/value cache. Later tokens may take more steps than the
    tokens of this call, so the loop also stores keys and values for steps after its last one.
    """

    trusts_arguments = False  # whether attention may skip its checks

    def __init__(
        self,
        plan: Plan,
        context: GraphContext,
        feat: Tensor,
        positions: Tensor | None,
        num_dst: int,  # number of nodes in the result
        *,
        batch: BatchIndex | None = None,
        checks: FiniteChecks | None = None,
        rows: list[FrontierRows] | None = None,  # receives the rows of each step
        fill_cache: bool = False,
        exchange: Any = None,  # with other processes, if each has a part of the graph
    ) -> None:
        self.plan, self.context, self.num_dst = plan, context, num_dst
        self.batch, self.rows, self.fill_cache = batch, rows, fill_cache
        self.exchange, self._all_reduce = exchange, exchange and exchange.sum
        self.checks = checks or FiniteChecks(plan.is_traced)
        self.halting: Callable[..., Tensor] | None = plan.halting
        self.noise: Noise = {}
        if plan.training and (plan.noise or plan.quantize):
            self.noise = draw_noise(plan, None if exchange is None else exchange.halo)
        # Step signals, (max_steps, d), and the signal of each step, (d,).
        self.signals, self.signal_of = plan.signals, plan.signal_of
        if plan.step_signal is not None:
            self.signals = step_signals(plan.step_signal, plan.max_steps, feat)
            self.signal_of = self.signals.unbind()
        self.encodings: Tensor | None = None  # (N_src, d), added to the states in every step
        if positions is not None and plan.position_signal is not None:
            self.encodings = self.encode(positions, feat)
        if plan.inject_input:
            self.encodings = add_encoding(with_noise(self.noise, "injected", feat), self.encodings)
        if plan.quantize is not None:
            feat = plan.quantize.round(feat)
        # (N_src, d) first states
        self.feat = with_noise(self.noise, "first", feat) if self.noise else feat
        size = context.num_dst
        first = self.feat
        if plan.is_traced or size != first.shape[0]:  # sizes of a traced call are not compared
            first = first[:size]
        self.rule_state = RuleState(plan.rule, first, batch)

    def encode(self, positions: Tensor, feat: Tensor) -> Tensor:
        """Return the signals of positions, `(N_src, d)`."""
        table, signal = self.plan.positions, self.plan.position_signal
        assert signal is not None
        is_plain = table is not None and positions.dtype == torch.int64 and positions.dim() == 1
        if table is not None and is_plain and positions.numel():
            low, high = positions.aminmax()
            if low.item() >= 0 and high.item() < len(table):
                return table.index_select(0, positions)
        return encode(signal, positions, feat)

    def with_halo(self, nodes: Tensor | None, rows: Tensor) -> tuple[Tensor | None, Tensor]:
        """Return changed nodes and their `rows`, plus nodes received from any other processes."""
        return (nodes, rows) if self.exchange is None else self.exchange(nodes, rows)

    def any_active(self, count: int) -> bool:
        """Return whether any process has an active node; `count` is the number on this process."""
        return bool(count) if self.exchange is None else self.exchange.any_active(count)

    def step(self, t: int) -> Any:
        """Return the module that computes step `t`, counted from 1."""
        steps = self.plan.steps
        return steps[0] if len(steps) == 1 else steps[t - 1]

    def readout(self, states: Tensor) -> Tensor:
        """Return states `(A, d)` after the output norm, a final LayerNorm, if the step has one."""
        out: Tensor = self.plan.steps[-1].readout(states)
        return out

    def update(self, rows: Tensor, t: int) -> Tensor:
        """Run step `t` on its input for the active nodes, `(A, d)`, and return their new states."""
        step, quantize = self.step(t), self.plan.quantize
        if self.trusts_arguments:
            with skip_checks(True):
                new: Tensor = step.update(rows, self.context)
        else:
            new = step.update(rows, self.context)
        if quantize is None:
            return new
        return quantize.round(with_noise(self.noise, "quantized", new, self.context.frontier, t))

    def decide(
        self,
        before: Tensor,
        after: Tensor,
        t: int,
        nodes: Tensor | None,
        shown: Tensor | None,
        active: Tensor | None = None,
    ) -> Tensor:
        """Let the rule decide which nodes halt in step `t`; return a mask, `(A,)` bool.

        `before` and `after` are the input and the output of the step for the `A` active `nodes`
        (None: all nodes). If the call records its steps, this method appends a `FrontierRows` to
        `self.rows`; for its `change` it needs `shown`, the states before the step without signals.
        `active`, a mask, is given if all nodes compute: then only its nodes can halt.
        """
        plan, probability = self.plan, None
        if self.halting is not None:
            probability = self.halting(before if plan.halt_from == "input" else after, nodes, t)
            check_probability_shape(probability, len(after))
            self.checks.check_probability(probability, nodes, t)
        is_last = t == plan.max_steps
        step_rows = StepRows(before, after, probability, t, is_last, self._all_reduce)
        halts = self.rule_state.update(step_rows, active)
        if self.rows is not None and shown is not None:
            nodes = torch.arange(len(after), device=after.device) if nodes is None else nodes
            weights, chosen = self.rule_state.weight, self.rule_state.chosen
            change = squared_change(after, shown, relative=plan.steps[0].norm == "pre")
            states = self.readout(after)
            recorded = FrontierRows(nodes, states, weights, probability, change, chosen)
            if active is not None:
                recorded = FrontierRows._make(x if x is None else x[active] for x in recorded)
            self.rows.append(recorded)
        return halts


def add_encoding(rows: Tensor, encoding: Tensor | None) -> Tensor:
    """Return `rows`, `(A, d)`, plus `encoding`, `(A, d)` or `(d,)`; None adds nothing."""
    return rows if encoding is None else rows + encoding


def squared_change(new: Tensor, shown: Tensor, *, relative: bool) -> Tensor:
    """Return the mean square change of each node's state, `(A,)`, in float32 or wider.

    `shown` and `new`, `(A, d)`, are the states before and after a step. With `relative`, each
    change is divided by the mean square of the state in `shown`.
    """
    if new.dtype != shown.dtype or new.element_size() < 4:
        wide = torch.promote_types(torch.promote_types(new.dtype, shown.dtype), torch.float32)
        new, shown = new.to(wide), shown.to(wide)
    change = (new - shown).square().mean(1)
    if relative:
        change = change / shown.square().mean(1).clamp_min(torch.finfo(new.dtype).eps ** 2)
    return change
