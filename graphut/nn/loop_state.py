"""The settings and the state of one call of the adaptive loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphut.attention.checks import skip_checks
from graphut.nn.checks import FiniteChecks, check_probability_shape
from graphut.nn.context import AttentionContext
from graphut.nn.noise import InputNoise, Quantized, draw_noise, with_noise
from graphut.nn.rules.base import BatchIndex, HaltingRule, RuleState, StepRows
from graphut.nn.signals import Signal, encode, step_signals
from graphut.nn.step import UniversalTransformerStep


class LoopOutput(NamedTuple):
    """The results of all nodes."""

    out: Tensor  # (N, d) output states
    steps: Tensor  # (N,) int64
    remainder: Tensor  # (N,)
    cost: Tensor  # (N,) ponder cost of each node
    waking: dict[str, Any] | None = None  # more fields of `Ponder`, with `EventDriven`


class FrontierRows(NamedTuple):
    """The active nodes of one step, in packed rows."""

    nodes: Tensor  #: (A,) int64, ids of the active nodes
    states: Tensor  #: (A, d) new states, after the output norm if there is one
    #: (A,) weights of these states in the output; with `EventDriven` 1 for states that changed
    weights: Tensor
    probability: Tensor | None  #: (A,) halting probabilities; None without a halting module
    #: (A,) mean square change of the state, for a penalty on change; with `norm="pre"` it is
    #: divided by the mean square of the state before the step
    change: Tensor


@dataclass(frozen=True)
class LoopSettings:
    """The settings of an `AdaptiveRecurrence`, resolved for one call."""

    steps: Sequence[UniversalTransformerStep]  # one for all repetitions, or one for each
    halting: Callable[..., Tensor] | None
    halt_from: str  # the state that the halting module reads
    rule: HaltingRule
    max_steps: int
    halted: str
    position_signal: Signal | None
    step_signal: Signal | None
    inject_input: bool
    noise: Sequence[InputNoise]  # empty in evaluation
    quantize: Quantized | None
    state_noise: float  # standard deviation of noise before rounding; 0 in evaluation
    checkpoint_steps: bool

    @property
    def is_hooked(self) -> bool:
        """True if a step or its attention has hooks."""
        return any(step.is_hooked for step in self.steps)

    @property
    def calls_steps(self) -> bool:
        """True if each step is called as a module, with the states of all nodes."""
        return self.checkpoint_steps or self.is_hooked

    def step(self, repetition: int) -> UniversalTransformerStep:
        """Return the step of repetition 1, 2, ..., `max_steps`."""
        return self.steps[0] if len(self.steps) == 1 else self.steps[repetition - 1]

    def readout(self, states: Tensor) -> Tensor:
        """Apply the output norm, if there is one."""
        return self.steps[-1].readout(states)


class LoopState:
    """All that the steps of one call share.

    With `fill_cache`, the keys and values that later tokens may read after the last step of a token
    are written too, for the cache of a decoder.
    """

    trusts_arguments = False  # whether attention may skip its checks

    def __init__(
        self,
        settings: LoopSettings,
        context: AttentionContext,
        feat: Tensor,
        positions: Tensor | None,
        num_dst: int,  # number of nodes in the result
        *,
        batch: BatchIndex | None = None,
        checks: FiniteChecks | None = None,
        rows: list[FrontierRows] | None = None,  # receives the rows of each step
        fill_cache: bool = False,
    ) -> None:
        self.settings, self.context, self.num_dst = settings, context, num_dst
        self.batch, self.rows, self.fill_cache = batch, rows, fill_cache
        self.checks = FiniteChecks() if checks is None else checks
        self.noise = draw_noise(settings.noise, settings.state_noise)
        self.signals: Tensor | None = None  # (max_steps, d) step signals
        if settings.step_signal is not None:
            self.signals = step_signals(settings.step_signal, settings.max_steps, feat)
        self.encodings: Tensor | None = None  # (N_src, d), added to the states in every step
        if positions is not None and settings.position_signal is not None:
            self.encodings = encode(settings.position_signal, positions, feat)
        if settings.inject_input:
            self.encodings = add_encoding(with_noise(self.noise, "injected", feat), self.encodings)
        if settings.quantize is not None:
            feat = settings.quantize.round(feat)
        self.feat = with_noise(self.noise, "first", feat)  # (N_src, d) first states
        self.rule_state = RuleState(settings.rule, self.feat[: context.num_dst], batch)

    def signal(self, t: int) -> Tensor | None:
        """Return the signal of step `t`, `(d,)`."""
        return None if self.signals is None else self.signals[t - 1]

    def update(self, rows: Tensor, t: int) -> Tensor:
        """Return the new states of the frontier's rows."""
        with skip_checks(self.trusts_arguments):
            new = self.settings.step(t).update(rows, self.context)
        if self.settings.quantize is None:
            return new
        noisy = with_noise(self.noise, "quantized", new, self.context.frontier, t)
        return self.settings.quantize.round(noisy)

    def decide(
        self,
        before: Tensor,
        after: Tensor,
        t: int,
        nodes: Tensor | None,
        shown: Tensor | None,
        active: Tensor | None = None,
    ) -> Tensor:
        """Return which rows halt in step `t`, `(A,)` bool, and record the rows if asked for.

        `before` and `after` are input and output of the step, `(A, d)`; `nodes` is the node of each
        row, `None` for all nodes. `shown`, needed only for the record, are the states before the
        step without signals. `active` is a mask of rows that have not halted; all by default.
        """
        settings, probability = self.settings, None
        if settings.halting is not None and (
            settings.rule.uses_probability or self.rows is not None
        ):
            seen = before if settings.halt_from == "input" else after
            probability = settings.halting(seen, nodes, t)
            check_probability_shape(probability, len(after))
            self.checks.check_probability(probability, nodes, t)
        is_last = t == settings.max_steps
        halts = self.rule_state.update(StepRows(before, after, probability, t, is_last), active)
        if self.rows is not None and shown is not None:
            nodes = torch.arange(len(after), device=after.device) if nodes is None else nodes
            weights = self.rule_state.weight
            change = squared_change(after, shown, relative=settings.steps[0].norm == "pre")
            own = FrontierRows(nodes, settings.readout(after), weights, probability, change)
            if active is not None:
                own = FrontierRows._make(x if x is None else x[active] for x in own)
            self.rows.append(own)
        return halts


def add_encoding(rows: Tensor, encoding: Tensor | None) -> Tensor:
    """Add encodings, `(A, d)` or `(d,)`, if there are any."""
    return rows if encoding is None else rows + encoding


def squared_change(new: Tensor, shown: Tensor, *, relative: bool) -> Tensor:
    """Return the mean square difference of new and shown states `(A, d)`, in float32 or wider.

    With `relative` it is divided by the mean square of the shown state.
    """
    wide = torch.promote_types(torch.promote_types(new.dtype, shown.dtype), torch.float32)
    new, shown = new.to(wide), shown.to(wide)
    change = (new - shown).square().mean(1)
    if relative:
        change = change / shown.square().mean(1).clamp_min(torch.finfo(wide).eps ** 2)
    return change
