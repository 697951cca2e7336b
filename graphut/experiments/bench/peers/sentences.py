"""One call of scaled-dot-product attention for each sentence, nothing padded."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from graphut.experiments.bench.contender import Contender
from graphut.experiments.bench.peers.room import check_plain, check_room
from graphut.experiments.bench.problem import AttentionProblem
from graphut.experiments.bench.rectangle import Rectangle, padded_mask, rows_by_sentence

_Masking = tuple[Tensor | None, bool]  # a mask, or whether it is the causal one


def prepare_sentences(problem: AttentionProblem) -> Contender:
    """See the module."""
    check_plain(problem.biased)
    layout = problem.layout
    sizes = layout.src_lengths.tolist()
    counts = rows_by_sentence(layout, problem.frontier)
    check_room(2 * len(sizes) * int(counts.max()) * max(sizes), problem.device)
    rows, sources = Rectangle.of(counts), Rectangle.of(layout.src_lengths.to(layout.device))
    masks = padded_mask(rows, sources, problem.in_edges)[:, 0]
    maskings = [
        _masking(mask[:count, :size].expand(count, size))
        for mask, count, size in zip(masks, counts.tolist(), sizes, strict=True)
    ]
    per_sentence = counts.tolist()

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        parts = []
        split = (query.split(per_sentence), key.split(sizes), value.split(sizes))
        for q, k, v, (mask, causal) in zip(*split, maskings, strict=True):
            if not len(q):
                continue
            q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
            out = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
            parts.append(out[0].transpose(0, 1))
        return torch.cat(parts)

    return Contender(attend)


def _masking(mask: Tensor) -> _Masking:
    """No mask where none is needed."""
    if bool(mask.all()):
        return None, False
    if mask.shape[0] == mask.shape[1] and torch.equal(mask, torch.ones_like(mask).tril()):
        return None, True
    return mask.contiguous(), False
