"""Random positions in training, so that a model meets those of longer sentences."""

from __future__ import annotations

import torch
from torch import Tensor


def draw_positions(lengths: Tensor, room: int, *, spread: bool) -> Tensor:
    """What the positions 0, 1, ..., `length` of each sentence become: whole numbers that rise.

    None of them exceeds `length + room`. Without `spread` all of a sentence move by one number,
    uniform in `0..room` (arXiv 1807.03819, section 3.4). With it they are a random subset, in
    order, of a range that has a random width as well as a random start: so they lie apart by
    chance. Of "Randomized Positional Encodings Boost Length Generalization of Transformers" (arXiv
    2305.16843), where the range is always the whole. Here the logarithm of its width is
    uniform, and half of the ranges start at 0, so that a model also sees neighbours side by side
    and the first positions, as in evaluation.

    Parameters
    ----------
    lengths : Tensor
        `(batch,)` int64, the last position of each sentence.
    room : int
        How much higher a position can become.
    spread : bool
        Whether positions lie apart by chance.

    Returns
    -------
    Tensor
        `(batch, longest + 1)` int64; after its own `length` a row goes on one by one.

    Examples
    --------
    >>> drawn = draw_positions(torch.tensor([2, 3]), 10, spread=True)
    >>> drawn.shape, bool((drawn.diff(dim=1) >= 1).all()), int(drawn.max()) <= 13
    (torch.Size([2, 4]), True, True)
    """
    place = torch.arange(int(lengths.max()) + 1)
    if not spread:
        return place + torch.randint(room + 1, (len(lengths), 1))
    sizes = lengths[:, None] + 1
    growth = ((sizes + room + 1) / sizes) ** torch.rand(sizes.shape)
    width = (sizes * growth).long().clamp_max(sizes + room)
    start = (torch.rand(sizes.shape) * (sizes + room - width + 1)).long()
    start = start * torch.randint(2, sizes.shape)
    subset = _random_subsets(width, sizes)
    last = subset.gather(1, lengths[:, None])
    return start + torch.where(place < sizes, subset, last + place - lengths[:, None])


def _random_subsets(width: Tensor, sizes: Tensor) -> Tensor:
    """In each row a subset of `0..width - 1` of a size, in order; zeros after it."""
    number = torch.arange(int(width.max()))
    key = torch.rand(len(width), len(number)).masked_fill(number >= width, 2.0)
    chosen = key.argsort(1).argsort(1) < sizes
    row, value = chosen.nonzero(as_tuple=True)
    subsets = torch.zeros(len(width), int(sizes.max()), dtype=torch.int64)
    subsets[row, chosen.cumsum(1)[row, value] - 1] = value
    return subsets
