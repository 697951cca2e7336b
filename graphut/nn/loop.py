"""The adaptive loop, which repeats a step for the active nodes until no node is active."""

from __future__ import annotations

from collections.abc import Callable

from graphut.nn.frontier import HaltingFrontier
from graphut.nn.loop_state import LoopOutput, LoopState
from graphut.nn.masked import MaskedFrontier
from graphut.nn.rules.base import FixedDepth
from graphut.nn.rules.event_driven import EventDriven
from graphut.nn.waking import Start, WakingFrontier


def run_loop(
    state: LoopState,
    *,
    halting_frontier: Callable[[LoopState], HaltingFrontier] = HaltingFrontier,
    start: Start | None = None,
) -> LoopOutput:
    """Repeat the step until no node is active, and return the results of all nodes.

    `halting_frontier` creates the frontier (set of active nodes) under rules whose nodes halt for
    good. With the rule `EventDriven`, `start` has the states and nodes from which a run continues.
    """
    rule, max_steps = state.rule, state.layer.max_steps
    runs_all = state.layer.halted == "running" or isinstance(rule, FixedDepth)
    frontier: HaltingFrontier | MaskedFrontier | WakingFrontier
    if isinstance(rule, EventDriven):
        frontier = WakingFrontier(state, rule, start)
        max_steps = rule.max_rounds or max_steps
    elif runs_all or not state.context.num_dst:
        frontier = MaskedFrontier(state)
    else:
        frontier = halting_frontier(state)
    for t in range(1, max_steps + 1):
        if not state.any_active(frontier.num_active):
            break
        before = frontier.refresh_keys_and_values(t)
        after = state.update(before, t)
        frontier.end_step(before, after, t)
    result = frontier.result()
    return result._replace(out=state.readout(result.out))
