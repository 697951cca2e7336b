"""Changes that other libraries make to a linear map: LoRA, hooks, parametrizations."""

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from tests.helpers import normal
from tests.nn.cases import halve


class LowRank(nn.Module):
    """A linear map plus a low-rank map, as in LoRA (arXiv 2106.09685)."""

    def __init__(self, inner: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.inner = inner
        dtype, scale = inner.weight.dtype, 0.5
        down = scale * normal(rank, inner.in_features, seed=7, dtype=dtype)
        up = scale * normal(inner.out_features, rank, seed=8, dtype=dtype)
        self.down, self.up = nn.Parameter(down.detach()), nn.Parameter(up.detach())

        self.is_merged = False

    def forward(self, rows: Tensor) -> Tensor:
        if self.is_merged:
            return self.inner(rows)
        return self.inner(rows) + rows @ self.down.T @ self.up.T

    def merge(self) -> None:
        """Add the low-rank map to the weight in place, or subtract it again, as peft does."""
        sign = -1 if self.is_merged else 1
        self.inner.weight.data += sign * self.up.detach() @ self.down.detach()
        self.is_merged = not self.is_merged

    def merged(self) -> nn.Linear:
        """Return a copy of the linear map whose weight includes the low-rank map."""
        merged = deepcopy(self.inner)
        merged.weight.data += self.up.detach() @ self.down.detach()
        return merged


def halving(layer: nn.Linear) -> nn.Linear:
    """Add a hook that halves the result of a linear map."""
    layer.register_forward_hook(halve)
    return layer


def halved(layer: nn.Linear) -> nn.Linear:
    """Replace the hook of `halving` by half the weights."""
    layer._forward_hooks.clear()
    with torch.no_grad():
        layer.weight /= 2
        layer.bias /= 2
    return layer


def normed(layer: nn.Linear) -> nn.Linear:
    """Apply weight norm to a linear map, and change the norm of its rows."""
    weight_norm(layer)
    layer.parametrizations.weight.original0.data.mul_(0.7)
    return layer
