"""Rules that read changes of states: halting at convergence, and waking by events."""

from dataclasses import dataclass
from typing import ClassVar

from graphut._torch import Tensor, torch
from graphut.nn.rules.base import BatchIndex, Decision, HaltingRule, Memory, StepRows


@dataclass(frozen=True)
class Convergence(HaltingRule):
    r"""Halt when the state has almost stopped changing (arXiv 2502.05171, section 6).

    The change in a step is :math:`|x_t - x_{t-1}| / |x_t|`. The output is the state at halting. A
    node that waits for distant information may stop changing, too, and then it halts too early: use
    a smaller `tol` or `Global(Convergence())`.

    Parameters
    ----------
    tol : float
        The change below which a state counts as converged.
    patience : int
        Number of successive steps with a change below `tol`.

    Examples
    --------
    >>> Convergence(tol=0.05, patience=2).spec()
    'convergence:tol=0.05,patience=2'
    """

    name: ClassVar[str] = "convergence"
    uses_probability: ClassVar[bool] = False
    tol: float = 0.01
    patience: int = 1

    def __post_init__(self) -> None:
        self.check("tol", self.tol > 0.0, "be above 0")
        self.check("patience", self.patience >= 1, "be at least 1")

    def start(self, rows: Tensor, members: BatchIndex | None) -> Memory:
        return rows.detach(), torch.zeros(len(rows), dtype=torch.int64, device=rows.device)

    def measure(self, memory: Memory, rows: StepRows) -> Tensor:
        with torch.no_grad():
            wide = torch.promote_types(rows.after.dtype, torch.float32)
            was, now = memory[0].to(wide), rows.after.to(wide)
            return (now - was).norm(dim=1) / now.norm(dim=1).clamp_min(torch.finfo(wide).tiny)

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        small = (memory[1] + 1).masked_fill(~(measure < self.tol), 0)  # NaN is not small
        return Decision(small >= self.patience), (rows.after.detach(), small)


@dataclass(frozen=True)
class EventDriven(HaltingRule):
    """Let a node compute only in the round after it or one of its in-neighbours has changed.

    This is "vote to halt" of Pregel (Malewicz et al. 2010) for a learned step. Every node has a
    shown state, which its out-neighbours and the node itself read. A round computes the nodes of
    the frontier, which is every node at first. A node replaces its shown state if the new state
    differs from it by more than `tol`. The next frontier consists of the nodes whose shown state
    changed and of their out-neighbours. The computation ends when no shown state changes, or after
    the last round. The output is the shown states, and the ponder cost is 0.

    The distance of two states is the root mean square of their difference over the features. With
    `norm="pre"` it is divided by the root mean square of the shown state.

    Without gradients, the cost of a round depends only on the size of its frontier. With
    gradients, and in steps with hooks, a round also copies tables with one row for each node.

    The recurrence needs one step for all repetitions, without cross-attention, separable
    convolution or, in training, batch normalization. It has no step signal and no halting module.

    Parameters
    ----------
    tol : float
        Distance up to which a new state is discarded: 0, or at least 1e-15. With 0, any other
        number in a state counts as a change, and the output is the output of `FixedDepth` after the
        same number of rounds, up to rounding.
    max_rounds : int
        The largest number of rounds. With 0, it is the `max_steps` of the recurrence.

    Examples
    --------
    >>> import torch
    >>> from graphut.nn import AdaptiveRecurrence, MultiHeadAttention, PositionwiseTransition
    >>> from graphut.nn import Quantized, UniversalTransformerStep
    >>> from graphut.topology import Window
    >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
    >>> layer = AdaptiveRecurrence(step, rule=EventDriven(max_rounds=1000), step_signal=None,
    ...                            inject_input=True, quantize=Quantized(levels=1))
    >>> out, ponder = layer(Window(1).graph([6]), torch.randn(6, 8))
    >>> out.shape, ponder.steps.shape, ponder.rounds.shape
    (torch.Size([6, 8]), torch.Size([6]), torch.Size([1]))
    """

    name: ClassVar[str] = "event_driven"
    uses_probability: ClassVar[bool] = False
    fits_decoders: ClassVar[bool] = False
    tol: float = 0.0
    max_rounds: int = 0

    def __post_init__(self) -> None:
        # The square of a smaller number is not exact in float32.
        is_exact = self.tol == 0.0 or 1e-15 <= self.tol < float("inf")
        self.check("tol", is_exact, "be 0, or at least 1e-15 and finite")
        self.check("max_rounds", self.max_rounds >= 0, "be 0 or more")

    def changes(self, new: Tensor, shown: Tensor, change: Tensor) -> Tensor:
        """Return a mask of the nodes whose `new` states, `(A, d)`, replace the `shown` ones.

        `change` is the mean square change of each node, `(A,)`. Without a tolerance the states
        themselves are compared, because the square of a small change can be 0.
        """
        return change > self.tol**2 if self.tol else (new != shown).any(1)

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        raise ValueError("EventDriven depends on the graph; only AdaptiveRecurrence can run it")
