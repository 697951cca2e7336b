"""The adaptive loop: a step, repeated for the nodes of a frontier until it is empty."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from graphut.nn.context import AttentionContext
from graphut.nn.finite_checks import FiniteChecks
from graphut.nn.frontier import HaltingFrontier
from graphut.nn.loop_state import Frontier, FrontierRows, LoopOutput, LoopSettings, LoopState
from graphut.nn.masked import MaskedFrontier
from graphut.nn.rules.base import BatchIndex, FixedDepth
from graphut.nn.rules.event_driven import EventDriven
from graphut.nn.waking import Start, WakingFrontier


def run_loop(
    settings: LoopSettings,
    context: AttentionContext,
    feat: Tensor,
    positions: Tensor | None,
    num_dst: int,
    *,
    batch: BatchIndex | None = None,
    checks: FiniteChecks | None = None,
    halting_frontier: Callable[[LoopState], Frontier] = HaltingFrontier,
    rows: list[FrontierRows] | None = None,
    fill_cache: bool = False,
    start: Start | None = None,
) -> LoopOutput:
    """Repeat the step until no node is active; return the results of the first `num_dst` nodes.

    Parameters
    ----------
    settings : LoopSettings
        The step, the halting rule, and so on.
    context : AttentionContext
        The edges, and the keys and values of all nodes.
    feat : Tensor
        `(N_src, d)`, the first states.
    positions : Tensor or None
        `(N_src,)` or `(N_src, k)`, positions of the nodes.
    num_dst : int
        Number of nodes in the result.
    batch : BatchIndex, optional
        The graph of each node, for a rule that needs it.
    checks : FiniteChecks, optional
        Checks for values that are not finite.
    halting_frontier : callable
        Makes the frontier of nodes that halt for good.
    rows : list, optional
        Receives the rows of the frontier in each step.
    fill_cache : bool
        Also write the keys and values that later nodes may read after the last step of a node. The
        cache of a decoder needs them.
    start : Start, optional
        Where an event-driven run continues.
    """
    checks = FiniteChecks() if checks is None else checks
    state = LoopState(
        settings,
        context,
        feat,
        positions,
        num_dst,
        batch=batch,
        checks=checks,
        rows=rows,
        fill_cache=fill_cache,
    )
    rule, max_steps = settings.rule, settings.max_steps
    frontier: Frontier
    if isinstance(rule, EventDriven):
        frontier = WakingFrontier(state, rule, start)
        max_steps = rule.max_rounds or max_steps
    elif settings.halted == "running" or isinstance(rule, FixedDepth) or not context.num_dst:
        frontier = MaskedFrontier(state)
    else:
        frontier = halting_frontier(state)
    for t in range(1, max_steps + 1):
        if not frontier.num_active:
            break
        before = frontier.refresh_keys_and_values(t)
        after = state.update(before, t)
        frontier.end_step(before, after, t)
    result = frontier.result()
    return result._replace(out=settings.readout(result.out))
