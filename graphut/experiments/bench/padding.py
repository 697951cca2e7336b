"""Padded batches of sentences, attention masks, and a dense model."""

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from graphut.attention import EdgeLayout
from graphut.nn import UniversalTransformerStep, coordinate_signal


def present_positions(counts: Tensor) -> Tensor:
    """Return a mask of the positions that are not padding, `(batch, longest)`, for `counts`."""
    return torch.arange(int(counts.max()), device=counts.device) < counts[:, None]


def pad(rows: Tensor, present: Tensor) -> Tensor:
    """Pad the tokens of all sentences, `(N, ...)`, to `(batch, longest, ...)` with zeros."""
    table = rows.new_zeros(*present.shape, *rows.shape[1:])
    table[present] = rows
    return table


def rows_by_sentence(layout: EdgeLayout, frontier: Tensor | None) -> Tensor:
    """Count the active nodes (ids in `frontier`; None for all) of each sentence, `(batch,)`."""
    lengths = layout.dst_lengths.to(layout.device)
    if frontier is None:
        return lengths
    sentence = torch.repeat_interleave(lengths)[frontier]
    return torch.bincount(sentence, minlength=lengths.numel())


def padded_mask(rows: Tensor, sources: Tensor, in_edges: tuple[Tensor, Tensor]) -> Tensor:
    """Return the attention mask of a padded batch, `(batch, 1, queries, sources)` bool.

    `rows` and `sources` are masks of the queries and sources that are not padding. If the queries
    of each sentence attend to the same sources, the shape is `(batch, 1, 1, sources)`. Padded
    queries attend to all real sources, because a softmax over no source is undefined.
    """
    row, source = in_edges
    (sentence, line), column = rows.nonzero()[row].T, sources.nonzero()[source, 1]
    mask = sources[:, None] & ~rows[..., None]
    mask[sentence, line, column] = True
    if bool((mask == mask[:, :1]).all()):
        mask = mask[:, :1]
    return mask[:, None]


class PaddedModel(nn.Module):
    """A dense model that computes all nodes at every step, and masks the states of halted nodes.

    `step` must be post-norm with a position-wise feed-forward layer; `mask` comes from
    `padded_mask`; `share` is the halting probability of a node before its last step. The signals
    are made once, so that `torch.compile` sees tensors only.
    """

    def __init__(
        self, step: UniversalTransformerStep, mask: Tensor, *, max_steps: int, share: float
    ) -> None:
        super().__init__()
        self.step, self.mask, self.share = step, mask, share
        like = step.attention.query.weight
        columns = torch.arange(1, max(mask.shape[-1], max_steps) + 1, device=like.device)
        signals = coordinate_signal(columns, like.shape[1], like.dtype)
        self.positions, self.signals = signals[: mask.shape[-1]], signals[:max_steps]

    def forward(self, x: Tensor, depth: Tensor) -> Tensor:
        """Return output states, `(batch, longest, d)`; a node halts at its `depth` (0: padding)."""
        out, spent = torch.zeros_like(x), x.new_zeros(x.shape[:2])
        for t, signal in enumerate(self.signals, 1):
            new = self._step(x + self.positions + signal)
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
        assert step.transition is not None
        return step.transition_norm(a + step.transition.layers(a))
