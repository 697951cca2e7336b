"""Recurrences on a GPU as fixed sequences of launches, whatever nodes are active.

`mode` chooses how they run, `release` frees their memory, and `synchronize` raises the errors that
have not been reported yet.
"""

import sys
from typing import Any

import torch

from graphut.attention.layout import full_size
from graphut.nn.gpu.async_checks import AsyncFiniteChecks as AsyncFiniteChecks
from graphut.nn.gpu.async_checks import synchronize
from graphut.nn.gpu.settings import limit_mode, mode
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
    if loaded := sys.modules.get("graphut.nn.gpu.replay"):
        loaded.release()


def run_program(call: Any) -> Any:
    """Run all steps of a call that has a program, and return the results of all nodes.

    Return None if the program cannot be made or launched, so that the loop must run.
    """
    # Triton decides at the import of kernels whether they are compiled or interpreted.
    from graphut.nn.gpu import device_loop, replay

    try:
        output, errors = device_loop.run_program(call)
    except (replay.ProgramError, torch.OutOfMemoryError) as error:
        limit_mode(call.program, "off", error.__cause__ or error)
        return None
    call.checks.note(errors, full_size(len(call.feat)))
    return output
