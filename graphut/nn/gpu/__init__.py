"""Recurrences on a GPU as fixed sequences of launches, whatever nodes are active."""

from typing import Any

from graphut.nn.gpu.async_checks import AsyncFiniteChecks as AsyncFiniteChecks
from graphut.nn.gpu.settings import program_of as program_of


def run_program(call: Any, start: Any = None) -> Any:
    """Run all steps of a call that has a program, and return the results of all nodes.

    With the rule `EventDriven`, a run continues from any `start`.
    """
    # Triton decides at the import of kernels whether they are compiled or interpreted.
    from graphut.nn.gpu import device_loop, waking

    return waking.run_program(call, start) if call.is_waking else device_loop.run_program(call)
