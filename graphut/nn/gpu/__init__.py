"""Recurrences on a GPU as fixed sequences of launches, whatever nodes are active."""

from typing import Any

from graphut.nn.call_state import LoopOutput, LoopState


def run_program(state: LoopState, start: Any = None) -> LoopOutput:
    """Run all steps of a recurrence whose plan has a program; return the results of all nodes.

    With the rule `EventDriven`, a run continues from any `start`.
    """
    # Triton decides at the import of kernels whether they are compiled or interpreted.
    from graphut.nn.gpu import device_loop, waking

    if state.plan.frontier == "waking":
        return waking.run_program(state, start)
    return device_loop.run_program(state)
