"""Batch normalisation with statistics of each step of a recurrence."""

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm


class StepBatchNorm(nn.Module):
    r"""Batch normalisation whose statistics belong to a step (arXiv 1603.09025).

    .. math::
        y = \gamma_t \frac{x - \mu_t}{\sqrt{\sigma_t^2 + \epsilon}} + \beta_t

    In training, :math:`\mu_t` and :math:`\sigma_t^2` are the mean and the (biased) variance of the
    rows that step :math:`t` computes; with fewer than two rows they are the running ones. In
    evaluation they are the running ones of step :math:`\min(t, T)`, so that a row does not depend
    on others, and the frontier does not matter. Scale and shift belong to each step too, which
    costs `2 * num_features` weights a step.

    LayerNorm cannot remove what all nodes share, and averages over neighbours let it grow from step
    to step. Batch normalisation removes it.

    Among several processes, each uses the rows that it computes itself. Under `checkpoint_steps`,
    the backward pass updates the running statistics again, as with `torch.nn.BatchNorm1d`.

    Parameters
    ----------
    num_features : int
        Features of a row.
    max_steps : int
        The number of steps with statistics of their own, :math:`T`.
    eps : float
        Added to the variance.
    momentum : float
        Share of a new value in the running statistics.

    Examples
    --------
    >>> norm = StepBatchNorm(8, max_steps=3)
    >>> norm(torch.randn(5, 8), 2).mean(0).abs().max() < 1e-6
    tensor(True)
    """

    counts_steps = True  # a step passes its number

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self, num_features: int, max_steps: int, *, eps: float = 1e-5, momentum: float = 0.1
    ) -> None:
        super().__init__()
        if num_features < 1 or max_steps < 1:
            raise ValueError(
                f"num_features and max_steps must be at least 1, got {num_features}, {max_steps}"
            )
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(max_steps, num_features))
        self.bias = nn.Parameter(torch.zeros(max_steps, num_features))
        self.register_buffer("running_mean", torch.zeros(max_steps, num_features))
        self.register_buffer("running_var", torch.ones(max_steps, num_features))

    def reset_parameters(self) -> None:
        """Reset scale, shift and running statistics."""
        for ones, zeros in ((self.weight, self.bias), (self.running_var, self.running_mean)):
            nn.init.ones_(ones)
            nn.init.zeros_(zeros)

    def forward(self, rows: Tensor, step: int) -> Tensor:
        """Return the normalised rows, `(A, num_features)`, of step `step`, counted from 1."""
        t = min(step, len(self.weight)) - 1
        running = self.running_mean[t], self.running_var[t]
        is_measured = self.training and len(rows) > 1
        momentum = self.momentum if is_measured else 0.0
        affine = self.weight[t], self.bias[t]
        return batch_norm(rows, *running, *affine, is_measured, momentum, self.eps)

    def extra_repr(self) -> str:
        steps, features = self.weight.shape
        return f"{features}, max_steps={steps}, eps={self.eps:g}, momentum={self.momentum:g}"
