"""The ways in which a halted node looks to its neighbours: one object for each.

Each writes the keys and values that changed since the last step into the context. A node is
written while it is active and, unless it is stale, once more after it has halted: the keys and
values that it has then are older than its final state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor

from graphut.nn.context import AttentionContext
from graphut.nn.frontier import Frontier, add_encoding
from graphut.nn.step import UniversalTransformerStep


class StepInput(NamedTuple):
    """A step, its signal `(d,)` if it has one, and the active rows `(A, d)` with their signals."""

    step: UniversalTransformerStep
    signal: Tensor | None
    rows: Tensor
    value_shift: Tensor | None = None  # what the signal adds to every value, if that is known

    def shift(self) -> Tensor | None:
        """Return what the signal adds to every value, where the projection is linear."""
        assert self.signal is not None
        return self.step.value_shift(self.signal) if self.value_shift is None else self.value_shift


class HaltedNodes(ABC):
    """A way in which halted nodes show keys and values."""

    @abstractmethod
    def write(self, context: AttentionContext, frontier: Frontier, given: StepInput) -> None:
        """Bring the keys and values in the context up to date."""

    def steps_to_settle(self, step: UniversalTransformerStep, max_steps: int) -> int:
        """Return for how many steps after its last one a node has to be written."""
        return 1


class Copied(HaltedNodes):
    """A halted node shows its final state with the signal of the present step.

    The signal moves all halted nodes by one vector. Where the projection is linear, that vector
    is added after attention, and no halted node is projected again.
    """

    def write(self, context: AttentionContext, frontier: Frontier, given: StepInput) -> None:
        """Write the rows of the last frontier, or all where the projection is not linear."""
        assert given.signal is not None  # without one, `Frozen` is the same
        context.value_shift = given.shift()
        if context.value_shift is None:
            everyone = frontier.everyone(context.num_src)
            context.write(None, given.step.project(everyone + given.signal))
        else:
            context.write(frontier.last_nodes, given.step.project(frontier.last()))

    def steps_to_settle(self, step: UniversalTransformerStep, max_steps: int) -> int:
        """Return 1, or `max_steps` where the projection is not linear."""
        return 1 if step.has_linear_projection else max_steps


class Frozen(HaltedNodes):
    """A halted node shows its final state with the signal of the step after its last."""

    def write(self, context: AttentionContext, frontier: Frontier, given: StepInput) -> None:
        """Write the rows of the last frontier."""
        shown = add_encoding(frontier.last(), given.signal)
        context.write(frontier.last_nodes, given.step.project(shown))


class Stale(HaltedNodes):
    """A halted node keeps the keys and values of its last active step."""

    def write(self, context: AttentionContext, frontier: Frontier, given: StepInput) -> None:
        """Write the active rows; at first also those of nodes that never take a step."""
        if frontier.step == 1:
            shown = add_encoding(frontier.last(), given.signal)
            context.write(None, given.step.project(shown))
        else:
            context.write(frontier.nodes, given.step.project(given.rows))

    def steps_to_settle(self, step: UniversalTransformerStep, max_steps: int) -> int:
        """Return 0."""
        return 0


HALTED_NODES: dict[str, HaltedNodes] = {"copied": Copied(), "frozen": Frozen(), "stale": Stale()}
