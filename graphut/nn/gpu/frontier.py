"""The frontier of nodes that halt for good, on a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor, nn

from graphut.nn.context import GraphContext
from graphut.nn.frontier import HaltingFrontier
from graphut.nn.gpu.async_checks import AsyncFiniteChecks
from graphut.nn.gpu.context import DeviceContext, existing
from graphut.nn.gpu.device_rows import DeviceRows
from graphut.nn.loop_state import LoopOutput, LoopSettings, LoopState
from graphut.nn.rules.act import ACT

if TYPE_CHECKING:
    from graphut.nn.gpu.fused_act import FusedRows


def gpu_frontier(state: LoopState) -> HaltingFrontier:
    """Return a frontier that does not wait for the number of active nodes.

    The checks of the run are `AsyncFiniteChecks`, and attention takes counts that only the device
    knows.
    """
    settings, checks = state.settings, state.checks
    assert isinstance(checks, AsyncFiniteChecks)
    given = state.feat, state.encodings, state.context.num_dst, checks
    if not (state.feat.is_cuda and is_fusable(settings)):
        return DeviceFrontier(state, DeviceRows(*given, state.noise))
    # Triton decides at the import of kernels whether they are compiled or interpreted.
    from graphut.nn.gpu.fused_act import FusedRows

    assert isinstance(settings.rule, ACT) and isinstance(settings.halting, nn.Module)
    fused = FusedRows(*given, settings.rule, settings.halting, settings.max_steps)
    return FusedFrontier(state, fused)


class DeviceFrontier(HaltingFrontier):
    """A frontier that ends with rows of no node, as in `DeviceRows`."""

    rows: DeviceRows
    context: DeviceContext

    def __init__(self, state: LoopState, rows: DeviceRows) -> None:
        super().__init__(state, rows)
        settings, num_src = state.settings, state.context.num_src
        graph = state.context
        assert isinstance(graph, GraphContext)
        self.context = DeviceContext(graph.layout, graph.cross_layout, graph.encoded)
        self.context.work = graph.work
        state.context = self.context
        if (halting := settings.halting) is not None:

            def halt(seen: Tensor, nodes: Tensor, t: int) -> Tensor:
                return halting(seen, existing(nodes, num_src), t)

            state.settings = replace(settings, halting=halt)
        if self.halted == "copied" and state.signals is not None:
            # The shifts of all steps in one launch.
            shifts = settings.step(1).value_shift(state.signals)
            self.value_shifts = None if shifts is None else shifts.unbind()

    def refresh_keys_and_values(self, t: int) -> Tensor:
        """Write the keys and values that changed; return the active rows with their signals."""
        self.context.count = self.rows.count
        return super().refresh_keys_and_values(t)


def is_fusable(settings: LoopSettings) -> bool:
    """Return whether `FusedRows` can end the steps."""
    noisy = any(kind.on == "every_step" for kind in settings.noise)
    return type(settings.rule) is ACT and settings.rule.weighting == "sum" and not noisy


class FusedFrontier(DeviceFrontier):
    """A frontier whose steps end in Triton kernels."""

    rows: FusedRows

    def end_step(self, before: Tensor, after: Tensor, t: int) -> None:
        """Let nodes halt, and store their outputs."""
        self.rows.end_step(before, after, t)

    def result(self) -> LoopOutput:
        """Return the results of all nodes."""
        out, steps, remainder, cost = self.rows.result()
        return LoopOutput(out, steps, remainder, cost)
