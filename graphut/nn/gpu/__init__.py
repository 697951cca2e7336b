"""The adaptive loop on a GPU: the host never waits for the number of active nodes."""

from __future__ import annotations

from graphut.nn.call_state import LoopOutput, LoopState


def run_program(state: LoopState) -> LoopOutput:
    """Run all steps of a recurrence whose plan has a program; return the results of all nodes."""
    # Triton decides at the import of kernels whether they are compiled or interpreted.
    from graphut.nn.gpu import device_loop

    return device_loop.run_program(state)
