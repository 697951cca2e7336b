"""Two topologies of the tests' own, and every topology's mask from its definition, pair by pair."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from graphut import topology as tp
from graphut.topology import Causal, Complete, Intersection, Topology, Union, Window
from tests.topology import brute_extra, brute_random


@dataclass(frozen=True)
class Back(Topology):
    """Destination `i` sees the source `i - steps` only: runs that may be empty."""

    name = "test_back"
    stable = True
    steps: int

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        return dst - self.steps, dst - self.steps + 1


@dataclass(frozen=True)
class Comb(Topology):
    """Every destination sees the multiples of `step`; edges come unsorted, twice, too far."""

    name = "test_comb"
    step: int = 2

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        teeth = torch.arange(-self.step, 3 * int(n_src.max()), self.step).flip(0)
        row = torch.arange(len(dst)).repeat_interleave(len(teeth))
        return row.repeat(2), teeth.repeat(2 * len(dst))


def sees(topology: Topology, i: int, j: int) -> bool:
    """Whether token `i` sees token `j`, where that depends on nothing else."""
    match topology:
        case Complete():
            return True
        case Causal():
            return j <= i
        case Window(radius):
            return abs(i - j) <= radius
        case Back(steps):
            return j == i - steps
        case Comb(step):
            return j % step == 0
        case tp.Dilated(radius, dilation):
            return (i - j) % dilation == 0 and abs(i - j) <= radius * dilation
        case tp.Strided(stride):
            return j <= i and (i - j <= stride or (i - j) % stride == 0)
        case tp.Fixed(block, summary):
            return j <= i and (i // block == j // block or j % block >= block - summary)
        case tp.Global(tokens):
            return i in tokens or j in tokens
        case tp.Patch(width, radius):
            return abs(i // width - j // width) <= radius and abs(i % width - j % width) <= radius
        case tp.Axial(width):
            return i // width == j // width or i % width == j % width
        case tp.Tree(arity):
            return i == j or child_of(i, j, arity) or child_of(j, i, arity)
        case tp.Ancestors(arity):
            return i == j or (i > 0 and sees(topology, (i - 1) // arity, j))
        case tp.Edges(ends):
            return (j, i) in list(zip(ends[::2], ends[1::2], strict=True))
    raise TypeError(topology)


def child_of(i: int, j: int, arity: int) -> bool:
    return i in range(arity * j + 1, arity * j + arity + 1)


def brute_mask(topology: Topology, n_dst: int, n_src: int) -> Tensor:
    match topology:
        case Union(left, right) | Intersection(left, right):
            one, other = brute_mask(left, n_dst, n_src), brute_mask(right, n_dst, n_src)
            if left.has_extra_nodes or right.has_extra_nodes:
                one, other = brute_extra.aligned(topology, one, other, n_dst)
            return one | other if isinstance(topology, Union) else one & other
        case tp.Random(links, seed):
            return brute_random.random_mask(links, seed, n_dst, n_src)
        case tp.Expander(degree, seed):
            return brute_random.expander_mask(degree, seed, max(n_dst, n_src))[:n_dst, :n_src]
        case tp.Last():
            return torch.arange(n_dst)[:, None].expand(n_dst, n_src) == n_dst - 1
        case tp.Virtual() | tp.Star() | tp.BinaryPartition():
            return brute_extra.mask(topology, n_dst)
    return torch.tensor([[sees(topology, i, j) for j in range(n_src)] for i in range(n_dst)])


def brute_batch_mask(topology: Topology, dst: list[int], src: list[int]) -> Tensor:
    return torch.block_diag(*(brute_mask(topology, n, m) for n, m in zip(dst, src, strict=True)))


small = st.integers(1, 4)
of_tokens: st.SearchStrategy[Topology] = st.one_of(
    st.just(Complete()),
    st.just(Causal()),
    st.builds(Window, st.integers(0, 4)),
    st.builds(Back, st.integers(-3, 3)),
    st.builds(Comb, st.integers(1, 3)),
    st.builds(tp.Dilated, st.integers(0, 3), small),
    st.builds(tp.Strided, small),
    st.builds(lambda summary, more: tp.Fixed(summary + more, summary), small, st.integers(0, 2)),
    st.lists(st.integers(0, 6), min_size=1, max_size=3).map(lambda at: tp.Global(*at)),
    st.just(tp.Last()),
    st.builds(tp.Random, small, st.integers(-3, 3)),
    st.builds(tp.Patch, small, st.integers(0, 2)),
    st.builds(tp.Axial, small),
    st.builds(tp.Tree, small),
    st.builds(tp.Ancestors, small),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=9).map(
        lambda pairs: tp.Edges(*(end for pair in pairs for end in pair))
    ),
    st.builds(tp.Expander, st.sampled_from([2, 4]), st.integers(-3, 3)),
)
topologies = st.recursive(
    of_tokens,
    lambda part: st.builds(Union, part, part) | st.builds(Intersection, part, part),
    max_leaves=4,
)
with_extra_nodes: st.SearchStrategy[Topology] = st.recursive(
    st.one_of(
        st.just(tp.Star()),
        st.builds(tp.Virtual, st.integers(1, 2)),
        st.builds(tp.BinaryPartition, st.integers(1, 3)),
    ),
    lambda part: st.one_of(
        st.builds(Union, part, part | topologies),
        st.builds(Union, topologies, part),
        st.builds(Intersection, part, topologies),
        st.builds(Intersection, topologies, part),
    ),
    max_leaves=3,
)
lengths = st.integers(1, 7)
batches = st.lists(lengths, min_size=1, max_size=4)
pairs = st.lists(st.tuples(lengths, lengths), min_size=1, max_size=4).map(
    lambda both: ([n for n, _ in both], [m for _, m in both])
)
