"""The state of one call of the adaptive loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from graphut.attention.argument_checks import skip_checks
from graphut.nn.context import GraphContext
from graphut.nn.finite_checks import FiniteChecks, check_probability_shape
from graphut.nn.halting import ScheduledHalting
from graphut.nn.noise import draw_noise, with_noise
from graphut.nn.rules.act import ACT
from graphut.nn.rules.base import BatchIndex, RuleState, StepRows
from graphut.nn.signals import encode, step_signals
from graphut.nn.step import UniversalTransformerStep

Recurrence: TypeAlias = Any
"""An `AdaptiveRecurrence`, whose module imports this one."""


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


class LoopState:
    """The state of one call of a recurrence, which all its steps share.

    `fill_cache` is for a decoder with a key/value cache. Later tokens may take more steps than the
    tokens of this call, so the loop also stores keys and values for steps after its last one.
    """

    trusts_arguments = False  # whether attention may skip its checks

    def __init__(
        self,
        layer: Recurrence,
        context: GraphContext,
        feat: Tensor,
        positions: Tensor | None,
        num_dst: int,  # number of nodes in the result
        *,
        steps: Sequence[UniversalTransformerStep] | None = None,  # by default the steps of `layer`
        batch: BatchIndex | None = None,
        checks: FiniteChecks | None = None,
        rows: list[FrontierRows] | None = None,  # receives the rows of each step
        fill_cache: bool = False,
        exchange: Any = None,  # with other processes, if each has a part of the graph
    ) -> None:
        self.layer, self.context, self.num_dst = layer, context, num_dst
        self.batch, self.rows, self.fill_cache = batch, rows, fill_cache
        self.exchange, self._all_reduce = exchange, exchange and exchange.sum
        self.checks = FiniteChecks() if checks is None else checks
        self.steps = steps or steps_of(layer)
        self.rule = layer.active_rule
        self.halting: Callable[..., Tensor] | None = layer.halting
        if isinstance(layer.halting, ScheduledHalting) and isinstance(self.rule, ACT):
            layer.halting.check(self.rule.threshold, layer.max_steps)
        # With a rule that ignores probabilities, the module reads the state that it was trained on.
        rules = (self.rule, layer.rule, layer.evaluation_rule)
        readers = [rule for rule in rules if rule.uses_probability]
        self.halt_from = (readers or [self.rule])[0].halt_from
        self.noise = draw_noise(layer, None if exchange is None else exchange.halo)
        self.signals: Tensor | None = None  # (max_steps, d) step signals
        if layer.step_signal is not None:
            self.signals = step_signals(layer.step_signal, layer.max_steps, feat)
        self.encodings: Tensor | None = None  # (N_src, d), added to the states in every step
        if positions is not None and layer.position_signal is not None:
            self.encodings = encode(layer.position_signal, positions, feat)
        if layer.inject_input:
            self.encodings = add_encoding(with_noise(self.noise, "injected", feat), self.encodings)
        if layer.quantize is not None:
            feat = layer.quantize.round(feat)
        self.feat = with_noise(self.noise, "first", feat)  # (N_src, d) first states
        self.rule_state = RuleState(self.rule, self.feat[: context.num_dst], batch)

    def with_halo(self, nodes: Tensor | None, rows: Tensor) -> tuple[Tensor | None, Tensor]:
        """Return changed nodes and their `rows`, plus nodes received from any other processes."""
        return (nodes, rows) if self.exchange is None else self.exchange(nodes, rows)

    def any_active(self, count: int) -> bool:
        """Return whether any process has an active node; `count` is the number on this process."""
        return bool(count) if self.exchange is None else self.exchange.any_active(count)

    def step(self, t: int) -> UniversalTransformerStep:
        """Return the module that computes step `t`, counted from 1."""
        return self.steps[0] if len(self.steps) == 1 else self.steps[t - 1]

    def readout(self, states: Tensor) -> Tensor:
        """Return states `(A, d)` after the output norm, a final LayerNorm, if the step has one."""
        return self.steps[-1].readout(states)

    def signal(self, t: int) -> Tensor | None:
        """Return the encoding of the step number `t`, `(d,)`, or None without step signals."""
        return None if self.signals is None else self.signals[t - 1]

    def update(self, rows: Tensor, t: int) -> Tensor:
        """Run step `t` on its input for the active nodes, `(A, d)`, and return their new states."""
        with skip_checks(self.trusts_arguments):
            new = self.step(t).update(rows, self.context)
        if self.layer.quantize is None:
            return new
        noisy = with_noise(self.noise, "quantized", new, self.context.frontier, t)
        return self.layer.quantize.round(noisy)

    def decide(
        self,
        before: Tensor,
        after: Tensor,
        t: int,
        nodes: Tensor | None,
        shown: Tensor | None,
        active: Tensor | None = None,
    ) -> Tensor:
        """Return which nodes halt in step `t`, `(A,)` bool.

        If the call records its steps (`self.rows` is a list), append a `FrontierRows` to the list.

        `before` and `after` are input and output of the step, `(A, d)`; `nodes` are the ids of the
        nodes, `None` for all nodes. `shown`, needed only for the record, are the states before the
        step, without signals. `active` is a mask of the nodes that have not halted; all by default.
        """
        probability = None
        if self.halting is not None and (self.rule.uses_probability or self.rows is not None):
            seen = before if self.halt_from == "input" else after
            probability = self.halting(seen, nodes, t)
            check_probability_shape(probability, len(after))
            self.checks.check_probability(probability, nodes, t)
        is_last = t == self.layer.max_steps
        step_rows = StepRows(before, after, probability, t, is_last, self._all_reduce)
        halts = self.rule_state.update(step_rows, active)
        if self.rows is not None and shown is not None:
            nodes = torch.arange(len(after), device=after.device) if nodes is None else nodes
            weights = self.rule_state.weight
            change = squared_change(after, shown, relative=self.steps[0].norm == "pre")
            own = FrontierRows(nodes, self.readout(after), weights, probability, change)
            if active is not None:
                own = FrontierRows._make(x if x is None else x[active] for x in own)
            self.rows.append(own)
        return halts


def steps_of(layer: Recurrence) -> Sequence[UniversalTransformerStep]:
    """Return a list of the step modules of a recurrence: one, or one for each repetition."""
    steps: Any = layer.step if isinstance(layer.step, nn.ModuleList) else [layer.step]
    return [*steps]


def add_encoding(rows: Tensor, encoding: Tensor | None) -> Tensor:
    """Return `rows`, `(A, d)`, plus `encoding`, `(A, d)` or `(d,)`; None adds nothing."""
    return rows if encoding is None else rows + encoding


def squared_change(new: Tensor, shown: Tensor, *, relative: bool) -> Tensor:
    """Return the mean square change of each node's state, `(A,)`, in float32 or wider.

    `shown` and `new`, `(A, d)`, are the states before and after a step. With `relative`, each
    change is divided by the mean square of the state in `shown`.
    """
    wide = torch.promote_types(torch.promote_types(new.dtype, shown.dtype), torch.float32)
    new, shown = new.to(wide), shown.to(wide)
    change = (new - shown).square().mean(1)
    if relative:
        change = change / shown.square().mean(1).clamp_min(torch.finfo(wide).eps ** 2)
    return change
