"""What halted nodes show to their neighbours: one class for each value of `halted`.

Each writes the keys and values that changed since the last step to the context. A node is written
while it is active. Except by "stale" it is written once more after it has halted, because its keys
and values are older than its final state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor

from graphut.nn.context import AttentionContext
from graphut.nn.packed_rows import ActiveRows, add_encoding
from graphut.nn.step import UniversalTransformerStep


class StepInput(NamedTuple):
    """A step and what it reads."""

    step: UniversalTransformerStep
    signal: Tensor | None  # (d,) step signal
    rows: Tensor  # (A, d) active rows with signals
    value_shift: Tensor | None = None  # what the signal adds to every value, if computed before

    def shift(self) -> Tensor | None:
        """Return what the signal adds to every value, or None if the projection is not linear."""
        assert self.signal is not None
        return self.step.value_shift(self.signal) if self.value_shift is None else self.value_shift


class HaltedNodes(ABC):
    """What halted nodes show."""

    @abstractmethod
    def write(self, context: AttentionContext, frontier: ActiveRows, given: StepInput) -> None:
        """Write changed keys and values to the context."""

    def extra_writes(self, step: UniversalTransformerStep, max_steps: int) -> int:
        """Return for how many steps after its last one a node is still written."""
        return 1


class Copied(HaltedNodes):
    """A halted node shows its final state with the signal of the present step.

    The signal moves the values of all halted nodes by one vector. If the projection is linear, this
    vector is added after attention, and no halted node is projected again.
    """

    def write(self, context: AttentionContext, frontier: ActiveRows, given: StepInput) -> None:
        """Write the rows of the last frontier, or all rows if the projection is not linear."""
        assert given.signal is not None  # without one, `Frozen` is the same
        context.value_shift = given.shift()
        if context.value_shift is None:
            states = frontier.all_states(context.num_src)
            context.write(None, given.step.project(states + given.signal))
        else:
            context.write(frontier.last_nodes, given.step.project(frontier.last()))

    def extra_writes(self, step: UniversalTransformerStep, max_steps: int) -> int:
        """Return 1, or `max_steps` if the projection is not linear."""
        return 1 if step.has_linear_projection else max_steps


class Frozen(HaltedNodes):
    """A halted node shows its final state with the signal of the step after its last."""

    def write(self, context: AttentionContext, frontier: ActiveRows, given: StepInput) -> None:
        """Write the rows of the last frontier."""
        shown = add_encoding(frontier.last(), given.signal)
        context.write(frontier.last_nodes, given.step.project(shown))


class Stale(HaltedNodes):
    """A halted node keeps the keys and values of its last active step."""

    def write(self, context: AttentionContext, frontier: ActiveRows, given: StepInput) -> None:
        """Write the active rows; in the first step also nodes that never compute."""
        if frontier.step == 1:
            shown = add_encoding(frontier.last(), given.signal)
            context.write(None, given.step.project(shown))
        else:
            context.write(frontier.nodes, given.step.project(given.rows))

    def extra_writes(self, step: UniversalTransformerStep, max_steps: int) -> int:
        """Return 0."""
        return 0


HALTED_NODES: dict[str, HaltedNodes] = {"copied": Copied(), "frozen": Frozen(), "stale": Stale()}
