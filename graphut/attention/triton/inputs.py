"""The arguments of the Triton kernels, and their launches.

The compiler makes a variant of a kernel for each None and each `constant` among its arguments, and
for integers that are 1 or multiples of 16.
"""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from graphut.attention.dropout import signed_threshold

OPTIONS = ("num_warps", "num_stages")  # of a launch
constant = lru_cache(None, typed=True)(tl.constexpr)  # what a kernel is compiled for


class Launch(NamedTuple):
    """A call of a kernel that has not been made yet."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]

    def run(self) -> None:
        """Launch the kernel."""
        self.kernel[self.grid](**self.arguments)


def launch_of(kernel: Any, grid: tuple[int, ...], known: Mapping[str, Any]) -> Launch:
    """Return a launch that takes the arguments of a kernel, and its options, by their names."""
    arguments = {name: known[name] for name in kernel.arg_names}
    options = {name: known[name] for name in OPTIONS if name in known}
    # Triton 3.9 warns if it is not told whether to fuse multiplications and additions.
    return Launch(kernel, grid, {**arguments, **options, "enable_fp_fusion": True})


def named(kind: Any, known: Mapping[str, Any]) -> Any:
    """Return a named tuple of a kind with fields that are known by their names; else None."""
    return kind(*map(known.get, kind._fields))


class TileSizes(NamedTuple):
    """The tile sizes and the launch options of a kernel, or constants."""

    block_m: Any  # rows; 1 in kernels for single rows, which do not use tensor cores
    block_n: Any  # sources, edges, or columns of a product
    num_warps: Any  # of a program
    num_stages: Any  # tiles in flight
    precision: Any = "tf32x3"  # of float32 products
    block_k: Any = 0  # columns of the left factor, where a product has many
    in_pieces: Any = False  # whether programs compute pieces of long rows


@cache
def with_options(sizes: TileSizes) -> dict[str, Any]:
    """Return the argument `sizes` of a kernel, in constants, and the options of its launch."""
    return {**sizes._asdict(), "sizes": TileSizes(*map(constant, sizes))}


class Heads(NamedTuple):
    """A tensor `(rows, heads, width)` each row of which has no gaps: see `packed`."""

    data: Tensor
    stride: int  # from one row to the next
    width: tl.constexpr
    block: tl.constexpr  # a power of two; kernels load as many features of a head


class Rows(NamedTuple):
    """The destination of each query row of a call; made by `active_rows`."""

    nodes: Tensor | None  # (rows,) ids, sorted; None if row i is destination i
    before: Tensor | None  # (num_dst + 1,) int32, number of rows before each destination
    number: Tensor | None = None  # int32, the number of rows, if only the device knows it


class Dropout(NamedTuple):
    """The seed and the probability of dropout, as `graphut.attention.dropout` reads them."""

    seed: Tensor  # int64
    threshold: int  # below which a hash is dropped, as a 32-bit pattern
    keep: float  # factor of what is kept


class KernelCall(NamedTuple):
    """The inputs of an attention call; made by `kernel_call`.

    Key and value have one row for each source. Or if they are stored, they hold all steps, `(steps
    * stored_size, ...)`. A step stores only some sources; `table_row` finds the latest row of each.

    Constants come first, and kernels compare no named tuple with None: Triton 3.5 and 3.6 cannot
    compile the comparison, and lose constants that follow a None.
    """

    query: Heads  # by row
    key: Heads  # by source, as `value`
    value: Heads
    heads: tl.constexpr
    bias_columns: tl.constexpr  # 1 or the number of heads; 0 without a bias
    is_stored: tl.constexpr
    rows: Rows
    scale: float  # factor of the scores
    drop: Dropout | None
    bias: Tensor | None  # (edges, bias_columns), added to the scores, by edge id; without gaps
    settled: Tensor | None  # (N_src,) int32, the last step that stores a source; None: the first
    stored_size: int


def kernel_call(
    tensors: Sequence[Tensor],
    least: int,
    *,
    rows: Rows,
    scale: float,
    drop: Dropout | None,
    bias: Tensor | None = None,
    settled: Tensor | None = None,
    stored_size: int = 0,
) -> KernelCall:
    """Return a call for kernels that load at least `least` features of a head.

    `tensors` are query, key and value, `(n, H, D)`, each packed.
    """
    heads = tensors[0].shape[1]
    columns, is_stored = constant(0 if bias is None else bias.shape[1]), constant(stored_size > 0)
    query, key, value = (heads_of(x, heads, least) for x in tensors)
    known = constant(heads), columns, is_stored, rows, scale, drop, bias, settled, stored_size
    return KernelCall(query, key, value, *known)


def heads_of(x: Tensor, heads: int, least: int) -> Heads:
    """Return `(n, H, D)` or `(n, H * D)` for kernels that load at least `least` features."""
    width = x.shape[2] if x.dim() == 3 else x.shape[1] // heads
    return Heads(x, x.stride(0), constant(width), constant(padded(width, least)))


def active_rows(num_dst: int, frontier: Tensor | None) -> Rows:
    """Return the `Rows` of a frontier, or of all destinations if it is None."""
    if frontier is None:
        return Rows(None, None)
    nodes = frontier.contiguous()
    every = torch.arange(num_dst + 1, device=nodes.device)
    return Rows(nodes, torch.searchsorted(nodes, every, out_int32=True))


def dropout_of(p: float, seed: Any) -> Dropout | None:
    """Return the dropout with probability `p`, or None if it is 0."""
    return Dropout(seed, signed_threshold(p), 1.0 / (1.0 - p)) if p else None


def packed(rows: Tensor) -> Tensor:
    """Return `rows`, `(n, H, D)`, without gaps inside a row; copy only if necessary."""
    heads, feats = rows.shape[1:]
    dense = (feats <= 1 or rows.stride(2) == 1) and (heads <= 1 or rows.stride(1) == feats)
    return rows if dense else rows.contiguous()


def padded(width: int, least: int = 16) -> int:
    """Round `width` up to a power of two, by default of at least 16, as tensor cores require."""
    return max(least, 1 << (width - 1).bit_length())
