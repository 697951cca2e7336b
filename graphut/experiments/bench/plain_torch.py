"""Adaptive Universal Transformers in plain torch, on padded batches."""

from collections.abc import Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from graphut._tokens import BOS
from graphut.models import UniversalTransformer, UniversalTransformerLM
from graphut.nn import ACT, AdaptiveRecurrence, MultiHeadAttention, PositionwiseTransition
from graphut.nn import coordinate_signal as signal


class PlainRecurrence(nn.Module):
    """A repeated `TransformerEncoderLayer` or `TransformerDecoderLayer` with adaptive halting.

    The layer has the weights of `ours`. It computes every token in each step; masks discard the new
    states of halted tokens. The loop ends when all tokens have halted.
    """

    def __init__(self, ours: AdaptiveRecurrence) -> None:
        super().__init__()
        step: Any = ours.step
        assert isinstance(step.transition, PositionwiseTransition) and isinstance(ours.rule, ACT)
        first, _, inner, last = step.transition.layers
        kind: Any = nn.TransformerEncoderLayer
        if step.cross_attention is not None:
            kind = nn.TransformerDecoderLayer
        self.layer: Any = kind(
            step.attention.in_feats[1],
            step.attention.num_heads,
            first.out_features,
            step.dropout.p,
            norm_first=step.norm == "pre",
            batch_first=True,
        )
        layer = self.layer
        layer.linear1, layer.linear2, layer.dropout = map(deepcopy, (first, last, inner))
        norms = [step.attention_norm, step.cross_norm, step.transition_norm]
        for number, norm in enumerate((norm for norm in norms if norm is not None), 1):
            setattr(layer, f"norm{number}", deepcopy(norm))
        _copy_attention(step.attention, layer.self_attn)
        if step.cross_attention is not None:
            _copy_attention(step.cross_attention, layer.multihead_attn)
        self.halting: Any = deepcopy(ours.halting)
        self.readout: Any = deepcopy(step.output_norm)
        self.max_steps, self.threshold = ours.max_steps, ours.rule.threshold
        self.has_step_signal = ours.step_signal is not None

    def forward(
        self, x: Tensor, present: Tensor, *others: Tensor, causal: bool
    ) -> tuple[Tensor, Tensor]:
        """Return output states, `(batch, longest, d)`, and ponder costs (arXiv 1603.08983).

        `present` masks the tokens that are not padding. `others` of a decoder are the output of the
        encoder and its mask.
        """
        longest, d = x.shape[1:]
        position = signal(torch.arange(1, longest + 1), d, x.dtype)
        side = "tgt" if others else "src"
        options = {f"{side}_key_padding_mask": ~present}
        if others:
            options["memory_key_padding_mask"] = ~others[1]
        if causal:
            mask = torch.ones(longest, longest, dtype=torch.bool).triu(1)
            options |= {f"{side}_mask": mask}
        out = torch.zeros_like(x)
        spent, cost, active = x.new_zeros(x.shape[:2]), x.new_zeros(x.shape[:2]), present
        for t in range(1, self.max_steps + 1):
            y = x + position
            if self.has_step_signal:
                y = y + signal(torch.tensor(t), d, x.dtype)
            chance = self.halting(y.flatten(0, 1)).view_as(spent)
            new = self.layer(y, *others[:1], **options)
            last = active if t == self.max_steps else active & (spent + chance >= self.threshold)
            weight = torch.where(last, 1 - spent, chance) * active
            out = out + weight[..., None] * new
            cost = cost + (weight + t) * last
            spent = spent + weight
            x = torch.where(active[..., None], new, x)
            active = active & ~last
            if not active.any():
                break
        return out if self.readout is None else self.readout(out), cost


class PlainModel(nn.Module):
    """A sequence-to-sequence or language model in plain torch, with the weights of `ours`."""

    source: Any
    target: Any
    output: Any

    def __init__(self, ours: UniversalTransformer | UniversalTransformerLM) -> None:
        super().__init__()
        self.decoder = PlainRecurrence(ours.decoder)
        self.dropout = deepcopy(ours.dropout)
        self.encoder = None
        if isinstance(ours, UniversalTransformer):
            self.encoder = PlainRecurrence(ours.encoder)
            tables = nn.ModuleList([ours.source_embedding, ours.target_embedding, ours.output])
            self.source, self.target, self.output = deepcopy(tables)  # with the same ties
        else:
            self.target, self.output = deepcopy(nn.ModuleList([ours.embedding, ours.output]))

    def forward(
        self, labels: Sequence[list[int]], sources: Sequence[list[int]], label_smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """Return the mean cross-entropy of the labels, and the mean ponder cost of the tokens."""
        cost, memory = torch.zeros(()), list[Tensor]()
        if self.encoder is not None:
            x, present = self._embed(self.source, sources)
            out, spent = self.encoder(x, present, causal=False)
            cost, memory = spent[present].mean(), [out, present]
        x, present = self._embed(self.target, [[BOS, *tokens[:-1]] for tokens in labels])
        out, spent = self.decoder(x, present, *memory, causal=True)
        targets = torch.tensor([*chain.from_iterable(labels)])
        loss = cross_entropy(self.output(out[present]), targets, label_smoothing=label_smoothing)
        return loss, cost + spent[present].mean()

    def _embed(self, table: nn.Embedding, sentences: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        rows = [*map(torch.tensor, sentences)]
        padded = pad_sequence(rows, batch_first=True, padding_value=-1)
        present = padded >= 0
        return self.dropout(table(padded.clamp_min(0)) * table.embedding_dim**0.5), present


def _copy_attention(ours: MultiHeadAttention, plain: nn.MultiheadAttention) -> None:
    plain.dropout = ours.attn_drop
    maps = (ours.query, ours.key_value)
    with torch.no_grad():
        plain.in_proj_weight.copy_(torch.cat([each.weight for each in maps]))
        plain.in_proj_bias.copy_(torch.cat([each.bias for each in maps]))
    plain.out_proj.load_state_dict(ours.output.state_dict())
