"""Settings and state of one run of the adaptive loop, and the interface of its frontiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from graphut.attention.checks import skip_checks
from graphut.nn.checks import check_probability_shape
from graphut.nn.context import AttentionContext
from graphut.nn.finite_checks import FiniteChecks
from graphut.nn.noise import InputNoise, Noise, draw_noise, with_noise
from graphut.nn.ponder import WakingRecord
from graphut.nn.quantized import Quantized
from graphut.nn.rules.base import BatchIndex, HaltingRule, RuleState, StepRows
from graphut.nn.signals import Signal, encode, step_signals
from graphut.nn.step import UniversalTransformerStep


class LoopOutput(NamedTuple):
    """The results of a run."""

    out: Tensor  # (N, d) output states
    steps: Tensor  # (N,) int64
    remainder: Tensor  # (N,)
    cost: Tensor  # (N,) ponder cost of each node
    waking: WakingRecord | None = None


class FrontierRows(NamedTuple):
    """The packed rows of the frontier in one step."""

    nodes: Tensor  #: (A,) int64, ids of the active nodes
    states: Tensor  #: (A, d) after the step, and after the output norm where there is one
    #: (A,) of these states in the output, as the rule says; by `EventDriven` 1 for changed states
    weights: Tensor
    probability: Tensor | None  #: (A,) of halting; None without a halting module
    #: (A,) mean square difference from the state before; with `norm="pre"` relative to the mean
    #: square of that state. Its gradient serves a penalty on change.
    change: Tensor


class Frontier(Protocol):
    """The nodes that compute in the next step, and the results of all nodes."""

    @property
    def num_active(self) -> int:
        """Number of nodes that compute in the next step; 0 ends the loop."""

    def refresh_keys_and_values(self, t: int) -> Tensor:
        """Write changed keys and values to the context; return the rows that the step reads.

        Rows `(A, d)` are the states of the frontier with signals and noise of step `t`.
        """

    def end_step(self, before: Tensor, after: Tensor, t: int) -> None:
        """Store the results of step `t`, from the rows before and after it, and find the next."""

    def result(self) -> LoopOutput:
        """Return the results of all nodes, without the output norm."""


@dataclass(frozen=True)
class LoopSettings:
    """Settings of the loop, which `AdaptiveRecurrence` explains."""

    steps: Sequence[UniversalTransformerStep]  # one for all repetitions, or one for each
    halting: nn.Module | None
    halt_from: str  # which state the halting module reads
    rule: HaltingRule
    max_steps: int
    halted: str
    position_signal: Signal | None
    step_signal: Signal | None
    inject_input: bool
    noise: Sequence[InputNoise]  # none in evaluation
    quantize: Quantized | None
    state_noise: float  # standard deviation before states are quantized; 0 in evaluation
    checkpoint_steps: bool

    @property
    def is_hooked(self) -> bool:
        """True if hooks act on a step or on its attention."""
        return any(step.is_hooked for step in self.steps)

    @property
    def calls_steps(self) -> bool:
        """True if each step is called as a module, with the states of all nodes."""
        return self.checkpoint_steps or self.is_hooked

    def step(self, repetition: int) -> UniversalTransformerStep:
        """Return the step of repetition 1, 2, ..., `max_steps`."""
        return self.steps[0] if len(self.steps) == 1 else self.steps[repetition - 1]

    def readout(self, states: Tensor) -> Tensor:
        """Return states after the output norm, where there is one."""
        return self.steps[-1].readout(states)


@dataclass
class LoopState:
    """All that the steps of one run share."""

    settings: LoopSettings
    context: AttentionContext
    feat: Tensor  # (N_src, d) the first states
    num_dst: int  # results are those of the first nodes
    encodings: Tensor | None  # (N_src, d) added to states: position signals and injected states
    signals: Tensor | None  # (max_steps, d) step signals
    noise: Noise
    batch: BatchIndex | None  # the graph of each node, for a rule that needs it
    checks: FiniteChecks
    rows: list[FrontierRows] | None  # receives the frontier of each step, if given
    fill_cache: bool  # whether to write keys and values of all steps that the cache may need
    trusts_arguments: bool = False  # whether attention may skip its checks

    def __post_init__(self) -> None:
        """Begin the state of the halting rule."""
        first = self.feat[: self.context.num_dst]
        self.rule_state = RuleState(self.settings.rule, first, self.batch)

    @classmethod
    def begin(
        cls,
        settings: LoopSettings,
        context: AttentionContext,
        feat: Tensor,
        positions: Tensor | None,
        num_dst: int,
        batch: BatchIndex | None,
        checks: FiniteChecks,
        rows: list[FrontierRows] | None,
        fill_cache: bool,
    ) -> LoopState:
        """Draw the noise of the run, and compute its signals and first states."""
        encodings = signals = None
        if positions is not None and settings.position_signal is not None:
            encodings = encode(settings.position_signal, positions, feat)
        if settings.step_signal is not None:
            signals = step_signals(settings.step_signal, settings.max_steps, feat)
        noise = draw_noise(settings.noise, settings.state_noise)
        if settings.inject_input:
            injected = with_noise(noise, "injected", feat)
            encodings = injected if encodings is None else injected + encodings
        if settings.quantize is not None:
            feat = settings.quantize.round(feat)
        feat = with_noise(noise, "first", feat)
        given = settings, context, feat, num_dst, encodings, signals, noise
        return cls(*given, batch, checks, rows, fill_cache)

    def signal(self, t: int) -> Tensor | None:
        """Return the signal of step `t`, `(d,)`."""
        return None if self.signals is None else self.signals[t - 1]

    def update(self, rows: Tensor, t: int) -> Tensor:
        """Return the new states of the frontier's rows, quantized where the recurrence does so."""
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
        *,
        existing_nodes: Tensor | None,
        shown: Tensor | None,
        active: Tensor | None = None,
    ) -> Tensor:
        """Ask the halting rule which rows halt in step `t`, and record the rows if asked for.

        Parameters
        ----------
        before, after : Tensor
            `(A, d)`, what the step read and its result.
        t : int
            The step.
        nodes : Tensor or None
            `(A,)`, the node of each row; `None` for all nodes.
        existing_nodes : Tensor or None
            The same for the halting module, where each id is one of the graph.
        shown : Tensor or None
            `(A, d)`, the states before the step without signals, if rows are recorded.
        active : Tensor, optional
            `(A,)` bool, rows that have not halted; all by default.

        Returns
        -------
        Tensor
            `(A,)` bool, rows that halt.
        """
        settings, probability = self.settings, None
        asks = settings.rule.uses_probability or self.rows is not None
        if settings.halting is not None and asks:
            seen = before if settings.halt_from == "input" else after
            probability = settings.halting(seen, existing_nodes, t)
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
