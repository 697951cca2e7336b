"""Halting at a threshold for the sum of the probabilities (ACT), or for a step's probability."""

from dataclasses import dataclass
from typing import ClassVar

from graphut._torch import Tensor, torch
from graphut.nn.rules.base import Decision, HaltingRule, Memory, StepRows


@dataclass(frozen=True)
class ACT(HaltingRule):
    r"""Halt when the halting probabilities sum to `threshold`.

    From arXiv 1603.08983, Eqs. 6 to 13. The weight of a state is its probability, and the weight of
    the last state is the remainder :math:`R`, 1 minus the sum of the earlier ones.

    Parameters
    ----------
    threshold : float
        Sum of probabilities at which a node halts, in `(0, 1]`.
    weighting : {"sum", "ema", "last", "ap-gcn"}
        The output of a node: the weighted sum of its states; an exponential moving average of them,
        as in tensor2tensor; its state at halting; or "ap-gcn", the mean over its steps of
        :math:`p_t x_t + (1 - p_t) x_{t-1}` (arXiv 2002.10306). In the code of that paper,
        :math:`p_t` is the sum of the probabilities so far, or at halting the remainder, and the
        mean of a node that only `max_steps` stops is divided by one step more.
    forced_remainder : bool
        Give the last state the remainder also if the node halts only because of `max_steps`.
    cost : {"steps+remainder", "remainder"}
        The ponder cost of a node: its number of steps plus :math:`R`, or :math:`R`.
    min_steps : {0, 1}
        With 0, the first state counts like the state of a step 0: it has a halting probability and
        a weight, and a node may halt there, with 0 steps.

    Examples
    --------
    >>> ACT(threshold=0.9).spec()
    'act:threshold=0.9'
    """

    name: ClassVar[str] = "act"
    num_sums: ClassVar[int] = 1  # of the probabilities
    threshold: float = 0.99
    halt_from: str = "input"
    weighting: str = "sum"
    forced_remainder: bool = True
    cost: str = "steps+remainder"
    min_steps: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_share("threshold")
        self.check_one_of("weighting", "sum", "ema", "last", "ap-gcn")
        self.check_one_of("cost", "steps+remainder", "remainder")
        self.check("min_steps", self.min_steps in (0, 1), "be 0 or 1")
        if self.weighting == "ap-gcn":
            self.check("min_steps", self.min_steps == 1, "be 1 with weighting='ap-gcn'")

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        (spent,) = memory
        total, remainder = spent + measure, torch.rsub(spent, 1.0)
        reached = total >= self.threshold
        weight = torch.where(reached, remainder, measure)
        if rows.is_last and self.forced_remainder:
            # In a single step, halting units get the gradient 0: DistributedDataParallel needs one.
            weight = remainder if rows.step > 1 else remainder + 0.0 * measure
        elif rows.is_last:
            remainder = remainder.masked_fill(~reached, 0.0)
        if self.weighting == "ap-gcn":
            weight = torch.where(reached, 1.0 - spent, 1.0 - total if rows.is_last else total)
        cost = remainder if self.cost == "remainder" else remainder + rows.step
        return Decision(reached, weight, remainder, cost), (total,)


@dataclass(frozen=True)
class Threshold(HaltingRule):
    """Halt at the first step whose halting probability reaches `threshold`, in `(0, 1]`.

    With `min_steps=0`, the probability of the first state counts too, as in `ACT`.

    The output is the state at halting, and the ponder cost is 0. Use the rule in evaluation, after
    training with `ACT`, `PonderNet` or `FixedDepth`. With `get_steps=True` one can also train the
    halting module to predict whether the model's output is correct, and then use the rule (as in
    "Less is More", arXiv 2510.04871).

    Examples
    --------
    >>> Threshold(0.9, halt_from="output").spec()
    'threshold:threshold=0.9,halt_from=output'
    """

    name: ClassVar[str] = "threshold"
    threshold: float = 0.5
    halt_from: str = "input"
    min_steps: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_share("threshold")
        self.check("min_steps", self.min_steps in (0, 1), "be 0 or 1")

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        return Decision(measure >= self.threshold), memory
