"""Halting at a threshold: of the sum of the probabilities (ACT), or of that of one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from graphut.nn.rules.base import BatchIndex, Decision, HaltingRule, Memory, StepRows


@dataclass(frozen=True)
class ACT(HaltingRule):
    r"""Halt when the halting probabilities sum to `threshold`.

    From arXiv 1603.08983, Eqs. 6 to 13. A state counts with its probability, and the last one with
    the remainder :math:`R`, which is what is left of 1.

    Parameters
    ----------
    threshold : float
        Sum of probabilities at which a node halts, in `(0, 1]`.
    halt_from : {"input", "output"}
        The state that the halting module reads: before or after the step.
    weighting : {"sum", "ema", "last"}
        The output of a node, from its states: their weighted sum, the running average of
        tensor2tensor, or the state at halting.
    forced_remainder : bool
        Give what is left of 1 to the last state of a node that halts only because of the cap.
    cost : {"steps+remainder", "remainder"}
        The ponder cost of a node: `N + R`, or `R`.

    Examples
    --------
    >>> ACT(threshold=0.9).spec()
    'act:threshold=0.9'
    """

    name: ClassVar[str] = "act"
    threshold: float = 0.99
    halt_from: str = "input"
    weighting: str = "sum"
    forced_remainder: bool = True
    cost: str = "steps+remainder"

    def __post_init__(self) -> None:
        """Raise `ValueError`, which quotes the value, for a wrong setting."""
        super().__post_init__()
        self.check("threshold", 0.0 < self.threshold <= 1.0, "lie in (0, 1]")
        self.check_one_of("weighting", "sum", "ema", "last")
        self.check_one_of("cost", "steps+remainder", "remainder")

    def start(self, rows: Tensor, members: BatchIndex | None) -> Memory:
        """Return the sum of the probabilities so far, in float32 or wider."""
        wide = torch.promote_types(rows.dtype, torch.float32)
        return (rows.new_zeros(len(rows), dtype=wide),)

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        """Let those rows halt whose sum reaches the threshold."""
        (spent,) = memory
        reached = spent + measure >= self.threshold
        closing = torch.ones_like(reached) if rows.is_last and self.forced_remainder else reached
        remainder = 1.0 - spent
        weight = torch.where(closing, remainder, measure)
        remainder = remainder.masked_fill(~closing, 0.0)
        cost = remainder if self.cost == "remainder" else remainder + rows.step
        return Decision(reached, weight, remainder, cost), (spent + weight,)


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

    Examples
    --------
    >>> Threshold(0.9, halt_from="output").spec()
    'threshold:threshold=0.9,halt_from=output'
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
