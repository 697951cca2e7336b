"""Topologies defined by a list of edges, a mask, or the parents in a tree."""

from collections.abc import Sequence
from dataclasses import dataclass

from graphut._torch import Tensor, torch
from graphut.attention.ragged import ragged_arange
from graphut.topology.base import Topology


@dataclass(frozen=True)
class Edges(Topology):
    """Explicit list of edges; usually created by `from_edges`, `from_mask` or `from_parents`.

    `ends` has the position of the source and then of the destination of each edge. Every sentence
    has the same edges between positions. A shorter sentence lacks the edges beyond its end, and
    in a longer sentence the tokens without listed edges have no in-edges.

    Examples
    --------
    >>> Edges(0, 0, 0, 1, 2, 1).mask(3).int()
    tensor([[1, 0, 0],
            [1, 0, 1],
            [0, 0, 0]], dtype=torch.int32)
    """

    name = "edges"
    stable = True

    ends: tuple[int, ...]

    def __init__(self, *ends: int) -> None:
        object.__setattr__(self, "ends", ends)
        self.__post_init__()
        ends = self.ends
        if len(ends) % 2 or min(ends, default=0) < 0:
            raise ValueError(f"edges: needs pairs of positions, all at least 0; got {ends!s:.80}")
        pairs = sorted(set(zip(ends[1::2], ends[::2], strict=True)))
        object.__setattr__(self, "ends", tuple(end for dst, src in pairs for end in (src, dst)))

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        ends = torch.tensor(self.ends, dtype=torch.int64)
        sources, destinations = ends.view(-1, 2).T.contiguous()
        first = torch.searchsorted(destinations, dst)
        row, position = ragged_arange(torch.searchsorted(destinations, dst, right=True) - first)
        return row, sources[first[row] + position]


def from_edges(sources: Sequence[int] | Tensor, destinations: Sequence[int] | Tensor) -> Edges:
    """Return the topology of an edge list, given the positions of sources and destinations.

    Examples
    --------
    >>> from_edges([0, 0, 2], [0, 1, 1]).spec()
    'edges:0,0,0,1,2,1'
    """
    if len(sources) != len(destinations):
        raise ValueError(f"{len(sources)} sources but {len(destinations)} destinations")
    pairs = zip(*(torch.as_tensor(ends).tolist() for ends in (sources, destinations)), strict=True)
    return Edges(*(end for pair in pairs for end in pair))


def from_mask(mask: Sequence[Sequence[bool]] | Tensor) -> Edges:
    """Return the topology of a bool mask `(n_dst, n_src)`; rows attend to columns.

    Examples
    --------
    >>> from_mask(torch.tensor([[True, False], [True, True]])) == from_edges([0, 0, 1], [0, 1, 1])
    True
    """
    mask = torch.as_tensor(mask)
    if mask.dtype != torch.bool or mask.dim() != 2:
        raise TypeError(
            "mask must be a bool tensor of shape (n_dst, n_src), such as mask != 0; got "
            f"{mask.dtype} of {tuple(mask.shape)}"
        )
    destinations, sources = mask.nonzero(as_tuple=True)
    return from_edges(sources, destinations)


def from_parents(parents: Sequence[int] | Tensor) -> Edges:
    """Return the topology of a tree or a forest, such as the parse tree of a sentence.

    Each token attends to itself, its parent and its children. `parents` has the position of the
    parent of each token, -1 for a root.

    Examples
    --------
    >>> from_parents([1, -1, 1]).mask(3).int()
    tensor([[1, 1, 0],
            [1, 1, 1],
            [0, 1, 1]], dtype=torch.int32)
    """
    parents = torch.as_tensor(parents).tolist()
    for token, parent in enumerate(parents):
        if not -1 <= parent < len(parents):
            raise ValueError(
                f"parents[{token}] is {parent}: a parent must be the position of one of the "
                f"{len(parents)} tokens, or -1 for a root"
            )
    pairs = [(token, token) for token in range(len(parents))]
    for token, parent in enumerate(parents):
        pairs += [(parent, token), (token, parent)] if parent >= 0 else []
    return Edges(*(end for pair in pairs for end in pair))
