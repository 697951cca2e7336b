"""PonderNet: a learned distribution of the step at which a node halts."""

from dataclasses import dataclass
from math import log, log1p
from typing import ClassVar

from graphut._torch import Tensor, torch
from graphut.nn.rules.base import BatchIndex, Decision, HaltingRule, Memory, StepRows

_STEP = 0x9E3779B9  # so that steps and positions give different bits


@dataclass(frozen=True)
class PonderNet(HaltingRule):
    r"""Train with the expected state over all steps (PonderNet, arXiv 2107.05407).

    A node halts at step `t` with probability :math:`w_t = p_t \prod_{s<t} (1 - p_s)`. The output
    is :math:`\sum_t w_t x_t`; the last weight is 1 minus the sum of the others. A node takes at
    least two steps and stops when its weights sum to `threshold`. Its ponder cost is `beta` times
    the KL divergence of `w` from the geometric distribution with parameter `prior`, truncated at
    the node's last step. In evaluation the default rule is `Quantile(0.5)`.

    Parameters
    ----------
    threshold : float
        Sum of the weights at which a node stops, in `(0, 1]`.
    prior : float
        Probability that a step is the last, in `(0, 1)`; the mean number of steps is `1 / prior`.
    beta : float
        Weight of the divergence.

    Examples
    --------
    >>> PonderNet(prior=0.1).for_evaluation()
    Quantile(q=0.5, halt_from='input')
    """

    name: ClassVar[str] = "ponder_net"
    num_sums: ClassVar[int] = 2  # of the weights, and of the terms of the divergence
    weighting = "sum"
    threshold: float = 0.95
    prior: float = 0.2
    beta: float = 0.01
    halt_from: str = "input"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_share("threshold")
        self.check("prior", 0.0 < self.prior < 1.0, "lie in (0, 1)")
        self.check("beta", self.beta >= 0.0, "be 0 or more")

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        (spent, divergence), t = memory, rows.step
        left = 1.0 - spent
        weight = measure * left
        reached = (spent + weight >= self.threshold) & (t >= 2)
        closing = torch.ones_like(reached) if rows.is_last else reached
        weight = torch.where(closing, left, weight)
        # A weight of 0 adds 0; the gradient of the logarithm must be finite.
        least = torch.finfo(weight.dtype).tiny
        prior = log(self.prior) + (t - 1) * log1p(-self.prior)
        divergence = divergence + weight * (weight.clamp_min(least).log() - prior)
        cost = self.beta * (divergence + log1p(-((1.0 - self.prior) ** t)))
        remainder = left.masked_fill(~closing, 0.0)
        return Decision(reached, weight, remainder, cost), (spent + weight, divergence)

    def for_evaluation(self) -> HaltingRule:
        return Quantile(halt_from=self.halt_from)


@dataclass(frozen=True)
class Quantile(HaltingRule):
    """Halt when the cumulative halting probability of PonderNet reaches `q`.

    The output is the state at halting. `q` lies in `(0, 1]`.

    Examples
    --------
    >>> Quantile(0.9).spec()
    'quantile:q=0.9'
    """

    name: ClassVar[str] = "quantile"
    num_sums: ClassVar[int] = 1  # the cumulative probability
    q: float = 0.5
    halt_from: str = "input"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_share("q")

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        (spent,) = memory
        spent = spent + measure * (1.0 - spent)
        return Decision(spent >= self.q), (spent,)


@dataclass(frozen=True)
class Sampled(HaltingRule):
    """Halt in each step at random, with the halting probability.

    The random number is a function of the seed, the node's graph (or sequence) in the batch, its
    index there, and the step; torch's generator is not used. The output is the state at halting.

    Examples
    --------
    >>> Sampled(seed=1).spec()
    'sampled:seed=1'
    """

    name: ClassVar[str] = "sampled"
    needs_members: ClassVar[bool] = True
    seed: int = 0
    halt_from: str = "input"

    def start(self, rows: Tensor, members: BatchIndex | None) -> Memory:
        from graphut.attention.dropout import mix, seed_hash

        assert members is not None
        ids = members.ids ^ (members.ids >> 32)
        return (mix(mix(ids ^ seed_hash(self.seed)) ^ members.place),)

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        from graphut.attention.dropout import mix

        bits = mix(memory[0] ^ mix(rows.step + _STEP))
        return Decision(bits.double() < measure.double() * 2.0**32), memory
