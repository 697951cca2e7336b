"""Recurrences on a GPU as fixed sequences of launches, whatever nodes are active.

`mode` chooses how they run, `release` frees their memory, and `synchronize` raises the errors that
have not been reported yet.
"""

import sys
from typing import Any

from graphut.nn.gpu.async_checks import AsyncFiniteChecks as AsyncFiniteChecks
from graphut.nn.gpu.async_checks import synchronize
from graphut.nn.gpu.settings import ProgramError, limit_mode, mode
from graphut.nn.gpu.settings import program_of as program_of

__all__ = ["mode", "release", "synchronize"]


def release() -> None:
    """Release the memory of all programs that no call uses; torch may then use it elsewhere.

    A program is the buffers and the CUDA graphs of a recurrence on a GPU, which later calls use
    again. Programs are also released when torch runs out of memory.

    Examples
    --------
    >>> from graphut.nn import gpu
    >>> gpu.release()
    """
    if replay := sys.modules.get("graphut.nn.gpu.replay"):
        replay.release()


def run_program(call: Any) -> Any:
    """Run all steps of a call that has a program, and return the results of all nodes.

    Return None if the program cannot be made or launched, so that the loop must run.
    """
    # Triton decides at the import of kernels whether they are compiled or interpreted.
    from graphut.nn.gpu import device_loop

    try:
        return device_loop.run_program(call)
    except ProgramError as error:
        cause = error.__cause__
    limit_mode(call.program, "off", cause)
    return None
