"""Halting probabilities: learned from the state, or given by a schedule."""

from itertools import chain

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import linear

from graphut.attention.tracing import outside_autocast


class HaltingUnit(nn.Linear):
    r"""Learned halting probability of each node, :math:`p_i = \sigma(w \cdot u_i + b)`.

    From arXiv 1603.08983, Eq. 5; :math:`u_i` is the state of the node. The probability is computed
    in float32 or wider, also under autocast and in models with a narrower dtype.

    Parameters
    ----------
    in_feats : int
        Features of a state.
    bias_init : float
        Initial value of `b`. It should be negative, because a model that halts early at first may
        not learn to take more steps.
    gain : float
        Gain of the Xavier initialization of `w`. With 0 all nodes have the same probability at
        first, and no sigmoid is saturated.
    norm : bool
        Apply a LayerNorm to the state first, as in the code of DGL's tutorial.
    units : int
        The number of maps. Steps with weights of their own need one for each step.

    Examples
    --------
    >>> HaltingUnit(8, bias_init=-1.0)(torch.zeros(2, 8)).detach()
    tensor([0.2689, 0.2689])
    """

    def __init__(
        self,
        in_feats: int,
        *,
        bias_init: float = -1.0,
        gain: float = 1.0,
        norm: bool = False,
        units: int = 1,
    ) -> None:
        super().__init__(in_feats, units)
        self.in_feats, self.units = in_feats, units
        self.bias_init, self.gain = bias_init, gain
        self.norm = nn.LayerNorm(in_feats) if norm else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights and set the bias to `bias_init`."""
        if "gain" not in vars(self):  # the constructor of the base class calls it
            super().reset_parameters()
            return
        for weight in self.weight.split(1):
            nn.init.xavier_uniform_(weight, self.gain)
        nn.init.constant_(self.bias, self.bias_init)
        if self.norm is not None:
            self.norm.reset_parameters()

    def forward(self, feat: Tensor, nodes: Tensor | None = None, step: int = 1) -> Tensor:
        """Return the halting probabilities, `(A,)`, of states `(A, in_feats)`.

        With several units, `step`, counted from 1, chooses one. `nodes`, the ids of the nodes, is
        for other halting modules.
        """
        unit = min(max(step, 1), self.units) - 1
        weight, dtype = self.weight, feat.dtype
        is_wide = self.norm is None and weight.dtype == dtype and dtype.itemsize >= 4
        if is_wide and not torch._C._is_any_autocast_enabled():
            return torch.sigmoid(linear(feat, weight, self.bias))[:, unit]
        wide, norm = torch.promote_types(dtype, torch.float32), self.norm
        with outside_autocast(feat.device.type):
            rows = feat.to(wide) if norm is None else _call_wide(norm, feat.to(wide))
            return torch.sigmoid(linear(rows, weight.to(wide), self.bias.to(wide)))[:, unit]

    def extra_repr(self) -> str:
        return f"bias_init={self.bias_init}, gain={self.gain}"


def _call_wide(layer: nn.Module, rows: Tensor) -> Tensor:
    """Call `layer` with its weights and buffers cast to the dtype of `rows`."""
    named = chain(layer.named_parameters(), layer.named_buffers())
    narrow = {name: x for name, x in named if x.is_floating_point() and x.dtype != rows.dtype}
    if not narrow:
        return layer(rows)
    wide = {name: x.to(rows.dtype) for name, x in narrow.items()}
    return functional_call(layer, wide, rows)


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
