"""The frontier that contains all nodes, for models without halting and for `halted="running"`."""

import torch
from torch import Tensor

from graphut.nn.call_state import LoopOutput, LoopState, add_encoding
from graphut.nn.noise import with_noise
from graphut.nn.rules.base import FixedDepth


class MaskedFrontier:
    """Let all nodes compute in every step; a mask protects the outputs of halted nodes.

    Sizes are read from `shape`, because `len` would make them constants of an exported program.
    """

    def __init__(self, state: LoopState) -> None:
        self.state, self.states, self.num_active = state, state.feat, 1
        self.runs_all = isinstance(state.plan.rule, FixedDepth)
        feat, size = state.feat, state.context.num_dst
        self.active = torch.ones(size, dtype=torch.bool, device=feat.device)
        self.steps = torch.zeros_like(self.active, dtype=torch.int64)
        wide = torch.promote_types(feat.dtype, torch.float32)
        self.remainder, self.cost = feat.new_zeros(2, size, dtype=wide)

    def refresh_keys_and_values(self, t: int) -> Tensor:
        """Store keys and values of all nodes; return the input of step `t`, `(N_dst, d)`."""
        state, context, moving = self.state, self.state.context, self.states.shape[0]
        context.begin_step(t)
        shown = self._with_signals(self.states, 0, t, t)
        if state.exchange is not None:
            _, shown = state.with_halo(None, shown)
        elif moving < context.num_src:
            halted, others = state.plan.halted, state.feat[moving : context.num_src]
            signal = 1 if halted in ("frozen", "stale") else t
            noise = t if halted == "running" else 1
            shown = torch.cat([shown, self._with_signals(others, moving, signal, noise)])
        context.project(state.step(t), None, shown)
        return shown[: context.num_dst]

    def _with_signals(self, states: Tensor, first: int, signal: int, noise: int) -> Tensor:
        """Add encodings, signal and noise of the given steps to states of nodes `first`, ..."""
        state, stop = self.state, first + states.shape[0]
        encodings = None if state.encodings is None else state.encodings[first:stop]
        rows, ids = add_encoding(states, encodings), None
        if state.noise and first:
            ids = torch.arange(first, stop, device=states.device)
        rows = with_noise(state.noise, "every_step", rows, ids, noise)
        return rows if state.signal_of is None else rows + state.signal_of[signal - 1]

    def end_step(self, before: Tensor, after: Tensor, t: int) -> None:
        """Store the states `after` step `t`, and the outputs of the nodes that the rule halts."""
        state, size, shown = self.state, after.shape[0], self.states
        self.states = after
        if size < self.active.shape[0]:  # each sampled block has fewer destinations
            self._truncate(size)
            state.rule_state.keep_first(size)
        if self.runs_all and state.rows is None:
            return
        self.steps = self.steps + self.active
        nodes = None if size == state.feat.shape[0] else torch.arange(size, device=after.device)
        active = None if self.runs_all else self.active
        halts = state.decide(before, after, t, nodes, shown[:size], active)
        if self.runs_all:
            return
        self.remainder = torch.where(halts, state.rule_state.remainder, self.remainder)
        self.cost = torch.where(halts, state.rule_state.cost, self.cost)
        self.active = self.active & ~halts
        if state.plan.waits and not (state.fill_cache or state.plan.is_traced):
            self.num_active = int(self.active.sum())

    def _truncate(self, size: int) -> None:
        self.active, self.steps = self.active[:size], self.steps[:size]
        self.remainder, self.cost = self.remainder[:size], self.cost[:size]

    def result(self) -> LoopOutput:
        """Return the output, number of steps, ACT remainder and ponder cost of each node."""
        state, size = self.state, self.state.num_dst
        out = self.states if self.runs_all else state.rule_state.out
        if self.steps.shape[0] > size:  # the blocks of later steps may have fewer destinations
            out = out[:size]
            self._truncate(size)
        if self.runs_all:
            self.steps = torch.full_like(self.steps, state.plan.max_steps)
        return LoopOutput(out, self.steps, self.remainder, self.cost)
