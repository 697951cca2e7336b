"""Division of a graph into parts, one for each process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from graphut._files import reraise_for_file
from graphut.attention import EdgeLayout, layout_from_edges
from graphut.distributed.halo import Halo

_TENSORS = ("nodes", "halo_nodes", "halo_sizes", "edges")
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """The part of a graph that one process owns: some nodes, and all their in-edges.

    To run a recurrence or a model on a part, pass `layout` and the features of the owned nodes.
    """

    nodes: Tensor  #: (N,) int64, ids of the owned nodes in the whole graph, sorted
    halo_nodes: Tensor  #: (H,) int64, ids of the other sources, grouped by the part that owns them
    halo_sizes: Tensor  #: (parts,) int64, number of `halo_nodes` in each part
    edges: Tensor  #: (2, E) int64, sources and destinations, numbered: `nodes`, then `halo_nodes`
    num_nodes: int  #: number of nodes of the whole graph
    arrays: Arrays = field(default_factory=dict)  #: from names to further arrays of the part

    @cached_property
    def halo(self) -> Halo | None:
        """The `Halo`, None for one part; the first read is collective: all processes must do it."""
        parts = len(self.halo_sizes)
        if parts == 1:
            return None
        if (processes := dist.get_world_size() if dist.is_initialized() else 1) != parts:
            raise ValueError(
                f"the graph has {parts} parts, but the number of processes is {processes}: use "
                f"torchrun --nproc-per-node {parts}, or cut the graph again"
            )
        ids = torch.cat([self.nodes, self.halo_nodes])
        return Halo(ids, len(self.nodes), self.num_nodes, self.halo_sizes)

    @cached_property
    def layout(self) -> EdgeLayout:
        """The `EdgeLayout` with halo; the first read is collective: all processes must do it."""
        num_dst = len(self.nodes)
        num_src = num_dst + len(self.halo_nodes)
        layout = layout_from_edges(*self.edges, num_src=num_src, num_dst=num_dst)
        return replace(layout, halo=self.halo)

    def save(self, path: str | Path) -> None:
        """Write the part to a file in NumPy's format `.npz`."""
        arrays: dict[str, Any] = {name: getattr(self, name).numpy() for name in _TENSORS}
        with Path(path).open("wb") as file:
            np.savez(file, num_nodes=self.num_nodes, **arrays, **self.arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | Path) -> Part:
        """Read a part that `save` wrote; raise `ValueError` if the file is damaged."""
        with reraise_for_file(path), np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
            tensors = {name: torch.from_numpy(arrays.pop(name)) for name in _TENSORS}
            return cls(num_nodes=int(arrays.pop("num_nodes")), arrays=arrays, **tensors)


def cut_graph(
    edges: NDArray[np.int64],
    part_of: NDArray[np.int64],
    of_nodes: Arrays | None = None,
    of_edges: Arrays | None = None,
) -> Iterator[Part]:
    """Yield the parts of a graph with `(2, E)` edges; `part_of[i]` is the part of node `i`.

    `of_nodes` and `of_edges` map names to arrays with one row per node, or per edge.

    Examples
    --------
    >>> edges = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> first, second = cut_graph(edges, np.array([0, 0, 1, 1]))
    >>> first.nodes, first.halo_nodes
    (tensor([0, 1]), tensor([3]))
    """
    parts = int(part_of.max()) + 1
    for part in range(parts):
        nodes, mine = np.flatnonzero(part_of == part), np.flatnonzero(part_of[edges[1]] == part)
        arrays = {name: rows[nodes] for name, rows in (of_nodes or {}).items()}
        arrays |= {name: rows[mine] for name, rows in (of_edges or {}).items()}
        halo = np.setdiff1d(edges[0, mine], nodes)
        halo = halo[part_of[halo].argsort(kind="stable")]
        number = np.empty(len(part_of), np.int64)
        number[np.concatenate([nodes, halo])] = np.arange(len(nodes) + len(halo))
        sizes = np.bincount(part_of[halo], minlength=parts)
        values = map(torch.from_numpy, (nodes, halo, sizes, number[edges[:, mine]]))
        tensors: dict[str, Any] = dict(zip(_TENSORS, values, strict=True))
        yield Part(**tensors, num_nodes=len(part_of), arrays=arrays)
