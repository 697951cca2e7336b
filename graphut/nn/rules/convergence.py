"""Halting when the state of a node has converged, without a halting module."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from graphut._torch import Tensor, torch
from graphut.nn.rules.base import BatchIndex, Decision, HaltingRule, Memory, StepRows


@dataclass(frozen=True)
class Convergence(HaltingRule):
    r"""Halt when the state has almost stopped changing (arXiv 2502.05171, section 6).

    The change in a step is :math:`|x_t - x_{t-1}| / |x_t|`; with a readout it is the divergence of
    two successive predictions, :math:`KL(softmax(r(x_{t-1})) \| softmax(r(x_t)))`. The output is
    the state at halting. A node that waits for distant information may stop changing, too, and then
    it halts too early: use a smaller `tol` or `Global(Convergence())`.

    Parameters
    ----------
    tol : float
        The change below which a state counts as converged.
    patience : int
        Number of successive steps with a change below `tol`.
    readout : callable, optional
        Maps states `(A, d)`, before the output norm, to logits `(A, classes)`. Its parameters are
        not part of the rule.

    Examples
    --------
    >>> Convergence(tol=0.05, patience=2).spec()
    'convergence:tol=0.05,patience=2'
    """

    name: ClassVar[str] = "convergence"
    uses_probability: ClassVar[bool] = False
    tol: float = 0.01
    patience: int = 1
    readout: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        self.check("tol", self.tol > 0.0, "be above 0")
        self.check("patience", self.patience >= 1, "be at least 1")
        self.check("patience", self.patience < 2**63, "be below 2**63")

    def start(self, rows: Tensor, members: BatchIndex | None) -> Memory:
        return rows.detach(), torch.zeros(len(rows), dtype=torch.int64, device=rows.device)

    def measure(self, memory: Memory, rows: StepRows) -> Tensor:
        with torch.no_grad():
            wide = torch.promote_types(rows.after.dtype, torch.float32)
            if self.readout is not None:
                logits = (self.readout(states).to(wide) for states in (memory[0], rows.after))
                was, now = (x.log_softmax(-1) for x in logits)
                # A class with probability 0 adds 0.
                return (was.exp() * (was - now)).masked_fill(was == -torch.inf, 0.0).sum(-1)
            was, now = memory[0].to(wide), rows.after.to(wide)
            size = now.norm(dim=1).clamp_min(torch.finfo(wide).tiny)
            return (now - was).norm(dim=1) / size

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        small = (memory[1] + 1).masked_fill(~(measure < self.tol), 0)  # NaN is not small
        return Decision(small >= self.patience), (rows.after.detach(), small)
