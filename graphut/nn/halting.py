"""Halting at given steps."""

import torch
from torch import Tensor, nn


class ScheduledHalting(nn.Module):
    """Halting module with which `ACT` halts each node at a given step.

    Other rules do the same if `share` is small enough: below the threshold of `Threshold`, or so
    that its sum over a node's earlier steps is below the threshold of `PonderNet`, which takes at
    least two steps in training. `Global`, `Convergence` and `FixedDepth` do not halt single nodes
    by their probabilities.

    Parameters
    ----------
    steps : Tensor
        `(N,)` int64, the step at which each node halts, at least 1.
    share : float, optional
        The probability of a node in each step before it halts. The default is 0.01, or less if a
        node has more than 50 steps, so that these probabilities sum to at most 0.5.

    Raises
    ------
    TypeError, ValueError
        If `steps` is not int64 or not at least 1; or, in a call, if there are not `N` nodes.

    Examples
    --------
    >>> halting = ScheduledHalting(torch.tensor([1, 3]))
    >>> halting(torch.zeros(2, 8), torch.tensor([0, 1]), step=1)
    tensor([1.0000, 0.0100])
    """

    steps: Tensor

    def __init__(self, steps: Tensor, *, share: float | None = None) -> None:
        super().__init__()
        if steps.dtype != torch.int64:
            raise TypeError(f"steps must be int64, got {steps.dtype}")
        if steps.numel() and int(steps.min()) < 1:
            raise ValueError(f"a node halts at step 1 or later, got step {int(steps.min())}")
        self.longest = int(steps.max()) if steps.numel() else 1
        self.share = min(0.01, 0.5 / self.longest) if share is None else share
        self.register_buffer("steps", steps)

    def forward(self, feat: Tensor, nodes: Tensor | None = None, step: int = 1) -> Tensor:
        """Return probabilities `(A,)`: 1 for nodes that halt at `step` or earlier, else `share`."""
        steps = self.steps if nodes is None else self.steps[nodes]
        if steps.shape != feat.shape[:1]:
            raise ValueError(
                f"the schedule is for {steps.numel()} nodes, but there are {feat.shape[0]}"
            )
        last = (steps <= step).to(torch.promote_types(feat.dtype, torch.float32))
        return last + self.share * (1.0 - last)
