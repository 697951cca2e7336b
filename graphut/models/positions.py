"""Positions of tokens other than 1, 2, 3, ...: random in training, or counted part by part."""

from __future__ import annotations

import torch
from torch import Tensor


def draw_positions(lengths: Tensor, max_offset: int, *, spread: bool) -> Tensor:
    """Draw a position for each of the positions 0, 1, ..., `length` of each sentence.

    So a model meets the positions of longer sentences in training. The drawn positions are whole
    numbers that rise, at most `length + max_offset`. Without `spread` all positions of a sentence
    move by one number, uniform in `0..max_offset` (arXiv 1807.03819, section 3.4). With `spread`
    they are a random subset, in order, of a range of random width and start ("Randomized
    Positional Encodings Boost Length Generalization of Transformers", arXiv 2305.16843, where the
    range is always the whole). Here the logarithm of the width is uniform, and half of the ranges
    start at 0, so that a model also sees neighbours side by side and the first positions, as in
    evaluation.

    `lengths`, `(batch,)` int64, are the last positions of sentences. The result is
    `(batch, longest + 1)` int64; after its own `length` a row goes on one by one.
    """
    position = torch.arange(int(lengths.max()) + 1)
    if not spread:
        return position + torch.randint(max_offset + 1, (len(lengths), 1))
    sizes = lengths[:, None] + 1
    growth = ((sizes + max_offset + 1) / sizes) ** torch.rand(sizes.shape)
    width = (sizes * growth).long().clamp_max(sizes + max_offset)
    start = (torch.rand(sizes.shape) * (sizes + max_offset - width + 1)).long()
    start = start * torch.randint(2, sizes.shape)
    subset = _random_subsets(width, sizes)
    last = subset.gather(1, lengths[:, None])
    return start + torch.where(position < sizes, subset, last + position - lengths[:, None])


def restart_positions(token: Tensor, first: Tensor, separator: int) -> Tensor:
    """Count tokens 1, 2, ... from the start of a sentence, and from 1 again after a separator.

    So symbols that belong together, each in its part of a sequence, get the same position
    ("Position Coupling", arXiv 2405.20671).

    `token`, `(num_tokens,)` int64, are the tokens of all sentences; `first`, of the same shape, is
    for each the index of the token of its sentence that counts as 1.
    """
    index = torch.arange(len(token), device=token.device)
    after = torch.where(token == separator, index + 1, 0).roll(1)
    after[0] = 0
    return index + 1 - first.maximum(after).cummax(0).values


def _random_subsets(width: Tensor, sizes: Tensor) -> Tensor:
    """Draw in each row a subset of `0..width - 1` of a size, in order, with zeros after it."""
    number = torch.arange(int(width.max()))
    key = torch.rand(len(width), len(number)).masked_fill(number >= width, 2.0)
    chosen = key.argsort(1).argsort(1) < sizes
    row, value = chosen.nonzero(as_tuple=True)
    subsets = torch.zeros(len(width), int(sizes.max()), dtype=torch.int64)
    subsets[row, chosen.cumsum(1)[row, value] - 1] = value
    return subsets
