"""Rules that read halting probabilities, beside ACT: PonderNet and a threshold."""

from dataclasses import dataclass, replace
from math import expm1, log, log1p
from typing import ClassVar

from graphut._torch import Tensor, torch
from graphut.nn.rules.base import Decision, HaltingRule, Memory, StepRows


@dataclass(frozen=True)
class Threshold(HaltingRule):
    """Halt at the first step whose halting probability reaches `threshold`, in `(0, 1]`.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_share("threshold")

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        return Decision(measure >= self.threshold), memory


@dataclass(frozen=True)
class PonderNet(HaltingRule):
    r"""Train with the expected state over all steps (PonderNet, arXiv 2107.05407).

    A node halts at step `t` with probability :math:`w_t = p_t \prod_{s<t} (1 - p_s)`. The output
    is :math:`\sum_t w_t x_t`; the last weight is 1 minus the sum of the others. A node stops when
    its weights sum to `threshold`. Its ponder cost is `beta` times the KL divergence of `w` from
    the geometric distribution with parameter `prior`, truncated at the node's last step.

    In evaluation the default is the median: `threshold=0.5` with `weighting="last"`.

    Parameters
    ----------
    threshold : float
        Sum of the weights at which a node stops, in `(0, 1]`.
    prior : float
        Probability that a step is the last, in `(0, 1)`; the mean number of steps is `1 / prior`.
    beta : float
        Weight of the divergence.
    weighting : {"sum", "last"}
        The output of a node: the expected state, with at least two steps; or its state at halting.

    Examples
    --------
    >>> PonderNet(prior=0.1).for_evaluation()
    PonderNet(threshold=0.5, prior=0.1, beta=0.01, halt_from='input', weighting='last')
    """

    name: ClassVar[str] = "ponder_net"
    num_sums: ClassVar[int] = 2  # of the weights, and of the terms of the divergence
    threshold: float = 0.95
    prior: float = 0.2
    beta: float = 0.01
    halt_from: str = "input"
    weighting: str = "sum"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_share("threshold")
        self.check("prior", 0.0 < self.prior < 1.0, "lie in (0, 1)")
        self.check("beta", self.beta >= 0.0, "be 0 or more")
        self.check_one_of("weighting", "sum", "last")

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        (spent, divergence), t = memory, rows.step
        left = 1.0 - spent
        weight = measure * left
        reached = spent + weight >= self.threshold
        if t == 1 and self.weighting == "sum":  # a single weight of 1 would train no probability
            reached = torch.zeros_like(reached)
        closing = torch.ones_like(reached) if rows.is_last else reached
        weight = torch.where(closing, left, weight)
        # A weight of 0 adds 0; the gradient of the logarithm must be finite.
        least = torch.finfo(weight.dtype).tiny
        prior = log(self.prior) + (t - 1) * log1p(-self.prior)
        divergence = divergence + weight * (weight.clamp_min(least).log() - prior)
        cost = self.beta * (divergence + log(-expm1(t * log1p(-self.prior))))
        remainder = left.masked_fill(~closing, 0.0)
        return Decision(reached, weight, remainder, cost), (spent + weight, divergence)

    def for_evaluation(self) -> HaltingRule:
        return replace(self, threshold=0.5, weighting="last")
