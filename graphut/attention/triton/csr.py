"""Triton attention for any layout: group edges by destination or source, and launch kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphut.attention.layout import EdgeLayout
from graphut.attention.ragged import ragged_arange
from graphut.attention.sorting import sort_edges
from graphut.attention.triton.inputs import KernelInputs, Launch, padded
from graphut.attention.triton.kernels.csr import rows_forward, rows_query, rows_source
from graphut.attention.triton.kernels.merge import merge_outputs, merge_sums
from graphut.attention.triton.sizes import FUSED, edges_at_once, row_warps


def forward(
    inputs: KernelInputs, out: Tensor, rest: Tensor | None, softmax: Tensor
) -> list[Launch]:
    """Write the output, its rounding error to `rest`, and each row's softmax maximum and sum."""
    edges = inputs.layout.cached(by_destination, inputs.split)
    shared = _row_arguments(inputs, edges) | {"rest": rest}
    rows, results = inputs.active.rows, {"out": out, "softmax": softmax}
    launches, parts = _launches(rows_forward, rows, edges, results, shared)
    if parts:
        more = {"rest": rest, "before": inputs.active.before, **results}
        given = {"parts": parts["out"], "part_softmax": parts["softmax"], **more}
        launches.append(_merge(merge_outputs, edges, out, given))
    return launches


def backward_rows(inputs: KernelInputs, to_query: Tensor, given: dict[str, Any]) -> list[Launch]:
    """Write the query's gradient; write to `given` the bias gradient and `delta = out . to_out`."""
    edges = inputs.layout.cached(by_destination, inputs.split)
    shared = _row_arguments(inputs, edges) | given
    rows, results = inputs.active.rows, {"to_query": to_query}
    launches, parts = _launches(rows_query, rows, edges, results, shared)
    if parts:
        by_row: dict[str, Any] = {"settled": None, "num_src": 0, "step": 1, "last_step": 1}
        by_row |= {"before": inputs.active.before, "out_stride": to_query.stride(0)}
        more = {"parts": parts["to_query"], "out": to_query, **by_row}
        launches.append(_merge(merge_sums, edges, to_query, more))
    return launches


def backward_sources(
    inputs: KernelInputs, to_key: Tensor, to_value: Tensor, given: dict[str, Any]
) -> list[Launch]:
    """Write the gradients of key and value; `given` has the other arguments of the kernel."""
    edges = inputs.layout.cached(by_source, inputs.split)
    own = inputs.source_arguments(to_key, to_value)
    shared = _arguments(inputs, edges) | own | given
    del shared["nodes"]
    results = {"to_key": to_key, "to_value": to_value}
    launches, parts = _launches(rows_source, edges.num_nodes, edges, results, shared)
    by_step = {name: shared[name] for name in ("settled", "num_src", "step", "last_step")}
    for name, part in parts.items():
        more = {"parts": part, "out": results[name], "out_stride": own[f"{name}_stride"]}
        launches.append(_merge(merge_sums, edges, results[name], more | by_step | {"before": None}))
    return launches


def _launches(
    kernel: Any, rows: int, edges: CSREdges, results: dict[str, Tensor], shared: dict[str, Any]
) -> tuple[list[Launch], dict[str, Tensor]]:
    """Return launches for short rows, then for pieces of long rows, and the results of pieces.

    A row is the edges of one node; for long rows see `Pieces`. `results` (of short rows) and the
    returned dictionary map argument names to output tensors. `shared` has all other arguments.
    """
    heads, pieces = shared["heads"], edges.pieces.owner.numel()
    whole = {"owner": None, "start": None, **shared, **results}
    launches = [Launch(kernel, (rows * heads,), whole)]
    if not pieces:
        return launches, {}
    parts = {
        name: torch.empty(pieces, *x.shape[1:], dtype=torch.float32, device=x.device)
        for name, x in results.items()
    }
    of_pieces: dict[str, Any] = {
        "owner": edges.pieces.owner,
        "start": edges.pieces.start,
        **shared,
        **parts,
    }
    if kernel is rows_source:
        of_pieces |= {f"{name}_stride": x.stride(0) for name, x in parts.items()}
    launches.append(Launch(kernel, (pieces * heads,), of_pieces))
    return launches, parts


def _merge(kernel: Any, edges: CSREdges, out: Tensor, given: dict[str, Any]) -> Launch:
    _, heads, width = out.shape
    sizes = {"heads": heads, "width": width, "block_width": padded(width)}
    sizes |= {"block_p": edges_at_once(padded(width)), **FUSED}
    long = {"long": edges.pieces.rows, "cuts": edges.pieces.cuts}
    return Launch(kernel, (edges.pieces.rows.numel() * heads,), given | long | sizes)


def _row_arguments(inputs: KernelInputs, edges: CSREdges) -> dict[str, Any]:
    return _arguments(inputs, edges) | {"count": inputs.active.count}


def _arguments(inputs: KernelInputs, edges: CSREdges) -> dict[str, Any]:
    # These kernels do not use tensor cores, so that narrow heads are not padded to 16 features.
    widths = [padded(x.shape[2], 4) for x in (inputs.query, inputs.value)]
    return inputs.arguments() | {
        "block_width": widths[0],
        "block_value": widths[1],
        "indptr": edges.indptr,
        "neighbours": edges.neighbours,
        "ids": edges.ids,
        "split": edges.split,
        "block_e": edges_at_once(max(widths)),
        "num_warps": row_warps(max(widths)),
    }


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of long rows: of nodes with more edges than one program of a kernel computes."""

    owner: Tensor  # (pieces,) int32, the row that each piece is of
    start: Tensor  # (pieces,) int64, its first edge
    rows: Tensor  # (long,) int32, the long rows
    cuts: Tensor  # (long + 1,) int32, the first piece of each


@dataclass(frozen=True, eq=False)
class CSREdges:
    """The edges in CSR format, grouped by destination or by source."""

    indptr: Tensor  # (nodes + 1,) int64, the first edge of each node
    neighbours: Tensor  # (E,) int32, the other end of each edge
    ids: Tensor | None  # (E,) int64, its id; None if they are 0, ..., E - 1
    split: int  # edges a program does at most
    pieces: Pieces  # of the nodes with more

    @property
    def num_nodes(self) -> int:
        """Number of destinations, or of sources if the edges are grouped by source."""
        return self.indptr.numel() - 1


def by_destination(layout: EdgeLayout, split: int) -> CSREdges:
    """Group the edges by destination, and cut groups of more than `split` edges into pieces."""
    indptr, sources = layout.row_starts, layout.sources().int()
    return CSREdges(indptr, sources, layout.edge_ids, split, cut_long(indptr, split))


def by_source(layout: EdgeLayout, split: int) -> CSREdges:
    """Group the edges by source, and cut groups of more than `split` edges into pieces."""
    ends = layout.destinations(), layout.sources()
    indptr, destinations, order = sort_edges(*ends, layout.num_dst, layout.num_src)
    ids = order if layout.edge_ids is None else layout.edge_ids[order]
    return CSREdges(indptr, destinations.int(), ids, split, cut_long(indptr, split))


def cut_long(indptr: Tensor, split: int) -> Pieces:
    """Cut the CSR rows with more than `split` edges into pieces of at most `split` edges.

    Examples
    --------
    >>> import torch
    >>> cut_long(torch.tensor([0, 2, 7]), 2)
    Pieces(owner=tensor([1, 1, 1], dtype=torch.int32), start=tensor([2, 4, 6]),
           rows=tensor([1], dtype=torch.int32), cuts=tensor([0, 3], dtype=torch.int32))
    """
    degrees = indptr.diff()
    rows = (degrees > split).nonzero()[:, 0]
    counts = -(-degrees[rows] // split)
    cuts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    of, step = ragged_arange(counts)
    start = indptr[rows[of]] + step * split
    return Pieces(rows[of].int(), start, rows.int(), cuts.int())
