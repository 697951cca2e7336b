"""The baseline in plain PyTorch: a dense, padded, masked model."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from graphut.nn import UniversalTransformerStep, coordinate_signal


class PaddedModel(nn.Module):
    """All nodes at all steps on `(batch, longest, d)`; halted ones are masked out.

    Others attend to the last state of a halted node, with the signal of the present step
    (`halted="copied"`).

    Parameters
    ----------
    step : UniversalTransformerStep
        The step whose weights to use: post-norm, with a position-wise transition.
    mask : Tensor
        `(batch, 1, longest or 1, longest)` bool, the columns to which each row attends.
    max_steps : int
        The cap.
    share : float
        Halting probability of a node before its last step.
    """

    def __init__(
        self, step: UniversalTransformerStep, mask: Tensor, *, max_steps: int, share: float
    ) -> None:
        super().__init__()
        self.step, self.mask, self.max_steps, self.share = step, mask, max_steps, share

    def forward(self, x: Tensor, depth: Tensor) -> Tensor:
        """Return the output states of first states `(batch, longest, d)`.

        `depth` is the step at which each node halts, `(batch, longest)` int64; 0 for padding.
        """
        longest, d = x.shape[1:]
        columns = torch.arange(1, longest + 1, device=x.device)
        position = coordinate_signal(columns, d, x.dtype)
        out, spent = torch.zeros_like(x), x.new_zeros(x.shape[:2])
        for t in range(1, self.max_steps + 1):
            time = torch.tensor(t, device=x.device)
            new = self._step(x + position + coordinate_signal(time, d, x.dtype))
            active, last = depth >= t, depth == t
            weight = torch.where(last, 1 - spent, self.share) * active
            out = out + weight[..., None] * new
            spent = spent + weight
            x = torch.where(active[..., None], new, x)
        return out

    def _step(self, y: Tensor) -> Tensor:
        step, attention = self.step, self.step.attention
        heads = (*y.shape[:2], attention.num_heads, attention.head_feats)
        query = attention.query(y).view(heads).transpose(1, 2)
        key, value = (
            part.reshape(heads).transpose(1, 2) for part in attention.key_value(y).chunk(2, -1)
        )
        attended = scaled_dot_product_attention(query, key, value, attn_mask=self.mask)
        a = step.attention_norm(y + attention.output(attended.transpose(1, 2).flatten(2)))
        new: Tensor = step.transition_norm(a + step.transition.layers(a))
        return new
