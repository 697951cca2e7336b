"""Ragged arrays: rows of different lengths in one tensor, with their positions and sums."""

from graphut._torch import Tensor, torch


def starts(lengths: Tensor) -> Tensor:
    """Return the index of the first entry of each row in a ragged array, given the row lengths."""
    return lengths.cumsum(0) - lengths


def positions(lengths: Tensor) -> Tensor:
    """Return the position of each entry of a ragged array in its row, given the row lengths."""
    return ragged_arange(lengths)[1]


def ragged_arange(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return the row of each entry of a ragged array, and its position in the row.

    Examples
    --------
    >>> ragged_arange(torch.tensor([2, 0, 1]))
    (tensor([0, 0, 2]), tensor([0, 1, 0]))
    """
    row = torch.repeat_interleave(lengths)
    return row, torch.arange(row.numel(), device=row.device) - starts(lengths)[row]


def earlier_equals(values: Tensor) -> Tensor:
    """Return for each entry the number of earlier entries that are equal to it, `(N,)` int64.

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
    """Return the sum of the values of each row, `(rows, ...)`, added in a deterministic order.

    `row`, `(N,)` int64, is the row of each of the `values`, `(N, ...)`. 16-bit values are summed in
    float32, because a long sum in 16 bits stops growing.
    """
    if values.dtype in (torch.bfloat16, torch.float16):
        return row_sums(values.float(), row, rows).to(values.dtype)
    sums = values.new_zeros(rows, *values.shape[1:])
    if values.is_cuda:  # `index_add` is not deterministic there; `index_put` sorts
        return sums.index_put((row,), values, accumulate=True)
    return sums.index_add(0, row, values)


def row_maxima(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Return the largest of the values of each row (see `row_sums`); `-inf` for an empty row."""
    index = row.view(-1, *[1] * (values.dim() - 1)).expand_as(values)
    least = values.new_full((rows, *values.shape[1:]), -torch.inf)
    return least.scatter_reduce(0, index, values, "amax")


def row_log_sums(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Return `log(sum(exp(values)))` of each row (see `row_sums`); `-inf` for an empty row."""
    # The maximum only prevents overflow; its gradient is zero.
    top = row_maxima(values.detach(), row, rows)
    return row_sums((values - top[row]).exp(), row, rows).log() + top
