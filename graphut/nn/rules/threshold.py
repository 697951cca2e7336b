"""A threshold for one step's probability: nothing adds up while a node waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from graphut.nn.rules.base import Decision, HaltingRule, Memory, StepRows


@dataclass(frozen=True)
class Threshold(HaltingRule):
    """Halt at the first step whose halting probability reaches `threshold`.

    The output is the state at halting, without a cost: use it in evaluation, after training by
    `ACT`, `PonderNet` or `FixedDepth`, or after training the probability from the packed rows of
    `get_steps=True` to say whether the answer read from a state is right (as in "Less is More",
    arXiv 2510.04871).

    Parameters
    ----------
    threshold : float
        The probability at which a node is sure, in `(0, 1]`.
    halt_from : {"input", "output"}
        The state that the halting module reads: before or after the step.
    """

    name: ClassVar[str] = "threshold"
    threshold: float = 0.5
    halt_from: str = "input"

    def __post_init__(self) -> None:
        """Raise `ValueError`, which quotes the value, for a wrong setting."""
        super().__post_init__()
        self.check("threshold", 0.0 < self.threshold <= 1.0, "lie in (0, 1]")

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        """Let those rows halt whose probability is high enough."""
        return Decision(measure >= self.threshold), memory
