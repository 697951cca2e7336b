"""Division of a graph into parts, one for each process, and folders that store the parts."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from graphut._dgl import dgl
from graphut._files import read_json, reraise_for_file, write_json
from graphut.attention import EdgeLayout, layout_from_edges
from graphut.distributed.halo import Halo
from graphut.topology import Topology

GRAPH, PART = "parts.json", "part.json"
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
    cut: str = ""  #: SHA-256 of the graph and of its division, the same in all parts

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
        cuts: list[Any] = [None] * parts
        dist.all_gather_object(cuts, self.cut)
        if len(set(cuts)) > 1:
            raise ValueError(
                "the parts of the processes are not of one graph, or not of one cut: give all of "
                "them the same parts"
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


def assign_parts(
    edges: NDArray[np.int64], num_nodes: int, parts: int, method: str = "metis"
) -> NDArray[np.int64]:
    """Return the number of the part of each node, `(num_nodes,)`, given `(2, E)` edges.

    The method "metis" cuts few edges (by DGL's METIS), "random" makes random parts of equal size,
    and "contiguous" makes parts of equal size with consecutive nodes. Raise `ValueError` for more
    parts than nodes, or an unknown method.
    """
    if not 1 <= parts <= num_nodes:
        raise ValueError(f"parts must be at least 1 and at most {num_nodes} nodes, got {parts}")
    equal = np.arange(num_nodes) * parts // num_nodes
    if method == "contiguous" or parts == 1:
        return equal
    if method == "random":
        return equal[np.random.default_rng(0).permutation(num_nodes)]
    if method != "metis":
        raise ValueError(f"method must be 'metis', 'random' or 'contiguous', got {method!r}")
    graph = dgl.graph((torch.from_numpy(edges[0]), torch.from_numpy(edges[1])), num_nodes=num_nodes)
    # DGL prints its steps, and leaves a file open.
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore", ResourceWarning)
        part_of = dgl.metis_partition_assignment(dgl.to_bidirected(graph), parts).numpy()
    if len(np.unique(part_of)) < parts:  # METIS may leave parts of a small graph empty
        return assign_parts(edges, num_nodes, parts, "random")
    return part_of.astype(np.int64)


def cut_graph(
    edges: NDArray[np.int64],
    part_of: NDArray[np.int64],
    of_nodes: Arrays | None = None,
    of_edges: Arrays | None = None,
) -> Iterator[Part]:
    """Yield the parts of a graph with `(2, E)` edges; `part_of[i]` is the part of node `i`.

    `of_nodes` and `of_edges` map names to arrays with one row per node, or per edge.
    """
    for part in range(int(part_of.max()) + 1):
        nodes, mine = np.flatnonzero(part_of == part), np.flatnonzero(part_of[edges[1]] == part)
        arrays = {name: rows[nodes] for name, rows in (of_nodes or {}).items()}
        arrays |= {name: rows[mine] for name, rows in (of_edges or {}).items()}
        yield _make_part(nodes, edges[:, mine], part_of, arrays)


def topology_part(topology: Topology, length: int, part: int, parts: int) -> Part:
    """Divide the graph of a sentence of `length` tokens into `parts` parts; return part `part`.

    Each part has consecutive tokens. Only the edges of this part are computed.

    Examples
    --------
    >>> from graphut.topology import Causal, Window
    >>> part = topology_part(Window(2) & Causal(), 100, part=1, parts=2)
    >>> part.nodes[0], part.halo_nodes
    (tensor(50), tensor([48, 49]))
    """
    part_of = assign_parts(np.zeros((2, 0), np.int64), length, parts, "contiguous")
    nodes = np.flatnonzero(part_of == part)
    dst, size = torch.from_numpy(nodes), torch.full((len(nodes),), length)
    row, source = topology.sorted_in_edges(dst, size, size)
    return _make_part(nodes, np.stack([source.numpy(), nodes[row]]), part_of, {})


def _make_part(
    nodes: NDArray[np.int64], edges: NDArray[np.int64], part_of: NDArray[np.int64], arrays: Arrays
) -> Part:
    """Return the part that owns `nodes`; `edges` are their in-edges, by ids in the whole graph."""
    halo = np.setdiff1d(edges[0], nodes)
    halo = halo[part_of[halo].argsort(kind="stable")]
    number = np.empty(len(part_of), np.int64)
    number[np.concatenate([nodes, halo])] = np.arange(len(nodes) + len(halo))
    sizes = np.bincount(part_of[halo], minlength=int(part_of.max()) + 1)
    values = map(torch.from_numpy, (nodes, halo, sizes, number[edges]))
    tensors: dict[str, Any] = dict(zip(_TENSORS, values, strict=True))
    return Part(**tensors, num_nodes=len(part_of), arrays=arrays)


def write_parts(
    folder: str | Path,
    edges: NDArray[np.int64],
    part_of: NDArray[np.int64],
    of_nodes: Arrays | None = None,
    of_edges: Arrays | None = None,
) -> Path:
    """Write the parts that `cut_graph` yields into a new or empty folder, and return the folder.

    Each part is a folder in it, `part-0`, `part-1`, ..., with its arrays as `.npy` files.
    `parts.json` describes the whole graph.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if entry := next(folder.iterdir(), None):
        raise FileExistsError(f"{folder} is not empty, it has {entry.name}: name a new folder")
    of_nodes, of_edges = of_nodes or {}, of_edges or {}
    digest = sha256(np.ascontiguousarray(edges).tobytes())
    for name, rows in sorted({**of_nodes, **of_edges}.items()):
        digest.update(name.encode() + np.ascontiguousarray(rows).tobytes())
    digest.update(part_of.tobytes())
    for number, part in enumerate(cut_graph(edges, part_of, of_nodes, of_edges)):
        place = folder / f"part-{number}"
        place.mkdir()
        tensors = {name: getattr(part, name).numpy() for name in _TENSORS}
        for name, rows in {**tensors, **part.arrays}.items():
            np.save(place / f"{name}.npy", rows, allow_pickle=False)
        write_json(place / PART, {"part": number, "cut": digest.hexdigest()})
    write_json(folder / GRAPH, {"num_nodes": len(part_of)})
    return folder


def load_part(folder: str | Path) -> Part:
    """Read the part of this process from a folder that `write_parts` wrote.

    Raise `FileNotFoundError` if the part is missing, and `ValueError` if a file is damaged. If the
    parts do not fit together, `part.layout` raises `ValueError`.
    """
    rank = dist.get_rank() if dist.is_initialized() else 0
    place, graph = Path(folder, f"part-{rank}"), read_json(Path(folder, GRAPH))
    if not place.is_dir():
        raise FileNotFoundError(
            f"process {rank} has no part in {folder}: {place.name} is missing; use as many "
            "processes as there are parts, or cut the graph again"
        )
    state = read_json(place / PART)
    arrays = {}
    for file in place.glob("*.npy"):
        with reraise_for_file(file, "is not a .npy file of numbers or text"):
            arrays[file.stem] = np.load(file, allow_pickle=False)
    with reraise_for_file(place):
        tensors = {name: torch.from_numpy(arrays.pop(name)) for name in _TENSORS}
    return Part(**tensors, num_nodes=graph["num_nodes"], arrays=arrays, cut=state["cut"])
