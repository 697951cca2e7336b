"""Fast calls of torch's layers; dropout from random bytes, and batch normalisation by steps.

A call of a module takes as long as a product of a few rows, and a step makes about fifteen.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, dropout, linear
from torch.nn.modules.module import (
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_forward_hooks,
    _global_forward_pre_hooks,
)

_CALL = nn.Module.__call__
_PLAIN = {nn.Linear, nn.LayerNorm, nn.ReLU, nn.Dropout, nn.Identity}


def call_layer(layer: Any, rows: Tensor) -> Tensor:
    """Return `layer(rows)`, without the cost of `__call__` for layers of torch without hooks."""
    kind, own = type(layer), layer.__dict__
    if kind in _PLAIN and not (
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or "forward" in own
        or _global_forward_hooks
        or _global_forward_pre_hooks
        or _global_backward_hooks
        or _global_backward_pre_hooks
        or nn.Module.__call__ is not _CALL  # a tool traces modules
    ):
        weights = own["_parameters"]  # an optimizer or a tool may replace them between calls
        try:
            if kind is nn.Linear:
                return linear(rows, weights["weight"], weights["bias"])
            if kind is nn.LayerNorm:
                shape, eps = own["normalized_shape"], own["eps"]
                return torch.layer_norm(rows, shape, weights["weight"], weights["bias"], eps)
            if kind is nn.ReLU:
                return torch.relu_(rows) if own["inplace"] else torch.relu(rows)
            if kind is nn.Identity or not (own["training"] and own["p"]):
                return rows
            return dropout(rows, own["p"])
        except KeyError:  # a tool has replaced a parameter by another kind of attribute
            pass
    called: Tensor = layer(rows)
    return called


def is_hooked(layer: nn.Module) -> bool:
    """Return whether `layer` has hooks, or a `forward` set on the instance."""
    own = vars(layer)
    hooks = own["_forward_hooks"] or own["_forward_pre_hooks"]
    hooks = hooks or own["_backward_hooks"] or own["_backward_pre_hooks"]
    return bool(hooks) or "forward" in own


class ByteDropout(nn.Module):
    """Dropout with a probability rounded to a multiple of 1/256, faster than torch's on a CPU.

    torch draws a random number for each entry. This module draws one for eight entries, which takes
    a quarter of the time of `torch.nn.Dropout`, and as long as a matrix product with 32 features
    in the step of a graph layer. Entries that stay are divided by the exact share that stays. On
    other devices it is `torch.nn.Dropout`.

    Examples
    --------
    >>> ByteDropout(0.5)(torch.ones(1000)).unique()
    tensor([0., 2.])
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise ValueError(f"the probability of dropout must lie in [0, 1), got {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not (self.training and self.p):
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return dropout(x, self.p)
        least = min(max(1, round(256 * self.p)), 255)
        words = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
        kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= least
        return x * (kept * (256 / (256 - least))).to(x.dtype)

    def extra_repr(self) -> str:
        return f"p={self.p:g}"


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

    Among several processes, each uses the rows that it computes itself.

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

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self, num_features: int, max_steps: int, *, eps: float = 1e-5, momentum: float = 0.1
    ) -> None:
        super().__init__()
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
