"""Ragged arrays, which are rows of different lengths one after another: positions and sums."""

from __future__ import annotations

import torch
from torch import Tensor


def starts(lengths: Tensor) -> Tensor:
    """Return where each row begins, given the length of each."""
    return lengths.cumsum(0) - lengths


def positions(lengths: Tensor) -> Tensor:
    """Return the position of each entry in its row, from 0."""
    return ragged_arange(lengths)[1]


def ragged_arange(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return `(row, position)` of every entry of a ragged array whose rows have these lengths.

    Examples
    --------
    >>> ragged_arange(torch.tensor([2, 0, 1]))
    (tensor([0, 0, 2]), tensor([0, 1, 0]))
    """
    row = torch.repeat_interleave(lengths)
    return row, torch.arange(row.numel(), device=row.device) - starts(lengths)[row]


def earlier_equals(values: Tensor) -> Tensor:
    """Return how many entries before each one are equal to it, `(N,)` int64.

    Examples
    --------
    >>> earlier_equals(torch.tensor([7, 3, 7, 7]))
    tensor([0, 0, 1, 2])
    """
    ascending, order = values.sort(stable=True)
    first = torch.searchsorted(ascending, ascending)
    rank = torch.arange(first.numel(), device=first.device) - first
    return torch.empty_like(rank).index_copy(0, order, rank)


def row_sums(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Add up the values of each row, `(rows, ...)`: always in the same order, to the same bits.

    `row`, `(N,)` int64, is the row of each of the values, `(N, ...)`. Values of 16 bits are added
    up in float32: in 16 bits a long sum would stop growing.
    """
    if values.dtype in (torch.bfloat16, torch.float16):
        return row_sums(values.float(), row, rows).to(values.dtype)
    sums = values.new_zeros(rows, *values.shape[1:])
    if values.is_cuda:  # where `index_add` adds in whatever order threads come; this one sorts
        return sums.index_put((row,), values, accumulate=True)
    return sums.index_add(0, row, values)


def row_maxima(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Return the largest value of each row, `(rows,)`; `-inf` for an empty one."""
    return values.new_full((rows,), -torch.inf).scatter_reduce(0, row, values, "amax")


def row_log_sums(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Return the log-sum-exp of the values of each row, `(rows,)`; `-inf` for an empty one.

    Examples
    --------
    >>> row_log_sums(torch.tensor([0.0, 0.0, 2.0]), torch.tensor([0, 0, 2]), 3)
    tensor([0.6931,   -inf, 2.0000])
    """
    # The maximum only guards the exponential: its gradient is zero.
    top = row_maxima(values.detach(), row, rows)
    return row_sums((values - top[row]).exp(), row, rows).log() + top
