"""How a node that has halted looks to its neighbours: one object for each way.

Each writes the keys and values that changed since the last step into the context. A node is
written while it is active and, unless it is stale, once more after it has halted: the keys and
values that it has then are older than its final state.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from graphut.nn.context import AttentionContext
from graphut.nn.frontier import Frontier
from graphut.nn.step import UniversalTransformerStep


class HaltedNodes(Protocol):
    """A way in which halted nodes show keys and values."""

    def write(
        self,
        context: AttentionContext,
        frontier: Frontier,
        step: UniversalTransformerStep,
        signal: Tensor,
        before: Tensor,
    ) -> None:
        """Bring keys and values up to date; `before` are the active rows with their signals."""

    def steps_to_settle(self, step: UniversalTransformerStep, max_steps: int) -> int:
        """Return for how many steps after its last one a node has to be written."""


class Copied:
    """A halted node shows its final state with the signal of the present step.

    The signal moves all halted nodes by one vector. Where the projection is linear, that vector
    is added after attention, and no halted node is projected again.
    """

    def write(
        self,
        context: AttentionContext,
        frontier: Frontier,
        step: UniversalTransformerStep,
        signal: Tensor,
        before: Tensor,
    ) -> None:
        """Bring keys and values up to date."""
        context.value_shift = step.value_shift(signal)
        if context.value_shift is None:
            everyone = frontier.everyone(context.num_src)
            context.write(None, step.project(everyone + signal))
        else:
            context.write(frontier.last_nodes, step.project(frontier.last()))

    def steps_to_settle(self, step: UniversalTransformerStep, max_steps: int) -> int:
        """Return one step, or all where the projection is not linear."""
        return 1 if step.has_linear_projection else max_steps


class Frozen:
    """A halted node shows its final state with the signal of the step after its last."""

    def write(
        self,
        context: AttentionContext,
        frontier: Frontier,
        step: UniversalTransformerStep,
        signal: Tensor,
        before: Tensor,
    ) -> None:
        """Bring keys and values up to date."""
        context.write(frontier.last_nodes, step.project(frontier.last() + signal))

    def steps_to_settle(self, step: UniversalTransformerStep, max_steps: int) -> int:
        """Return one step."""
        return 1


class Stale:
    """A halted node keeps the keys and values of its last active step."""

    def write(
        self,
        context: AttentionContext,
        frontier: Frontier,
        step: UniversalTransformerStep,
        signal: Tensor,
        before: Tensor,
    ) -> None:
        """Bring keys and values up to date."""
        if frontier.is_first:  # nodes that never take a step are written once
            context.write(None, step.project(frontier.last() + signal))
        else:
            context.write(frontier.nodes, step.project(before))

    def steps_to_settle(self, step: UniversalTransformerStep, max_steps: int) -> int:
        """Return 0: nothing is written after the last step."""
        return 0


HALTED_NODES: dict[str, HaltedNodes] = {"copied": Copied(), "frozen": Frozen(), "stale": Stale()}
