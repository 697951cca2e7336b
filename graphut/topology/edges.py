"""Topologies from a list of edges, a mask or a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from graphut.attention.ragged import ragged_arange
from graphut.topology.base import Topology


@dataclass(frozen=True)
class Edges(Topology):
    """The listed edges; made by `from_edges`, `from_mask` or `from_parents`.

    Every sentence gets the same edges, by position: in a shorter sentence those that lead
    beyond its end are left out, and in a longer one the tokens without an edge see nothing.

    Parameters
    ----------
    *ends : int
        Position of a source, of its destination, of the next source, and so on.

    Raises
    ------
    TypeError, ValueError
        If one is not an integer, or negative, or the last source has no destination.

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
        if len(ends) % 2:
            raise ValueError(f"edges: source {ends[-1]} is the last number and has no destination")
        if ends and min(ends) < 0:
            raise ValueError(f"edges: positions are from 0, got {min(ends)}")
        pairs = sorted(set(zip(ends[1::2], ends[::2], strict=True)))
        object.__setattr__(self, "ends", tuple(end for dst, src in pairs for end in (src, dst)))

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return the listed sources of each destination."""
        ends = torch.tensor(self.ends, dtype=torch.int64)
        sources, destinations = ends.view(-1, 2).T.contiguous()
        first = torch.searchsorted(destinations, dst)
        row, position = ragged_arange(torch.searchsorted(destinations, dst, right=True) - first)
        return row, sources[first[row] + position]


def from_edges(sources: Sequence[int] | Tensor, destinations: Sequence[int] | Tensor) -> Edges:
    """Make the topology of an edge list, given `sources` and `destinations`, by position.

    Raises
    ------
    TypeError, ValueError
        If they differ in number, or one is not an integer, or negative.

    Examples
    --------
    >>> from_edges([0, 0, 2], [0, 1, 1]).spec()
    'edges:0,0,0,1,2,1'
    """
    pair = [_plain(sources), _plain(destinations)]
    if len(pair[0]) != len(pair[1]):
        raise ValueError(f"{len(pair[0])} sources but {len(pair[1])} destinations")
    return Edges(*(end for edge in zip(*pair, strict=True) for end in edge))


def from_mask(mask: Tensor) -> Edges:
    """Make the topology of a mask, `(n_dst, n_src)` bool, in which rows see columns.

    Raises
    ------
    TypeError
        If it is not a matrix of truth values.

    Examples
    --------
    >>> from_mask(torch.tensor([[True, False], [True, True]])) == from_edges([0, 0, 1], [0, 1, 1])
    True
    """
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.dim() != 2:
        shown = f"{mask.dtype} of {tuple(mask.shape)}" if isinstance(mask, Tensor) else repr(mask)
        raise TypeError(f"a mask is a bool tensor (n_dst, n_src), got {shown}")
    destinations, sources = mask.nonzero(as_tuple=True)
    return from_edges(sources, destinations)


def from_parents(parents: Sequence[int] | Tensor, *, ancestors: bool = False) -> Edges:
    """Make the topology of a tree or a forest, such as the parse of a sentence.

    Each token sees itself, its parent and its children, or with `ancestors` itself and all its
    ancestors. `parents` are the positions of the tokens' parents, -1 for a root.

    Raises
    ------
    TypeError, ValueError
        If a parent is not one of the tokens, or a token is its own ancestor.

    Examples
    --------
    >>> from_parents([1, -1, 1]).mask(3).int()
    tensor([[1, 1, 0],
            [1, 1, 1],
            [0, 1, 1]], dtype=torch.int32)
    """
    parents = _plain(parents)
    _check_forest(parents)
    pairs = [(token, token) for token in range(len(parents))]
    for token, parent in enumerate(parents):
        while parent != -1:
            pairs += [(parent, token)] if ancestors else [(parent, token), (token, parent)]
            parent = parents[parent] if ancestors else -1
    return Edges(*(end for pair in pairs for end in pair))


def _plain(numbers: Any) -> list[int]:
    """Return the numbers of a tensor, an array or a sequence as a list."""
    return numbers.tolist() if hasattr(numbers, "tolist") else [*numbers]


def _check_forest(parents: Sequence[int]) -> None:
    """Raise an error if a parent is not one of the tokens, or a token is its own ancestor."""
    rooted: set[int] = set()  # tokens from which all parents lead to a root
    for token in range(len(parents)):
        path: set[int] = set()
        while token != -1 and token not in rooted:
            path.add(token)
            parent = parents[token]
            if not isinstance(parent, Integral):
                raise TypeError(f"parents[{token}] is {parent!r}: parents are positions of tokens")
            if not -1 <= parent < len(parents):
                raise ValueError(
                    f"parents[{token}] is {parent}: a parent is one of the {len(parents)} tokens, "
                    "or -1 above a root"
                )
            if parent in path:
                raise ValueError(f"parents[{token}] is {parent}, which is below it")
            token = parent
        rooted |= path
