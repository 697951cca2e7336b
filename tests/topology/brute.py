"""Two topologies of the tests' own, and every topology's mask from its definition, pair by pair."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from graphut.topology import Causal, Complete, Intersection, Topology, Union, Window


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
        case Union(left, right):
            return sees(left, i, j) or sees(right, i, j)
        case Intersection(left, right):
            return sees(left, i, j) and sees(right, i, j)
    raise TypeError(topology)


def brute_mask(topology: Topology, n_dst: int, n_src: int) -> Tensor:
    return torch.tensor([[sees(topology, i, j) for j in range(n_src)] for i in range(n_dst)])


def brute_batch_mask(topology: Topology, dst: list[int], src: list[int]) -> Tensor:
    return torch.block_diag(*(brute_mask(topology, n, m) for n, m in zip(dst, src, strict=True)))


topologies: st.SearchStrategy[Topology] = st.recursive(
    st.one_of(
        st.just(Complete()),
        st.just(Causal()),
        st.builds(Window, st.integers(0, 4)),
        st.builds(Back, st.integers(-3, 3)),
        st.builds(Comb, st.integers(1, 3)),
    ),
    lambda part: st.builds(Union, part, part) | st.builds(Intersection, part, part),
    max_leaves=4,
)
lengths = st.integers(1, 7)
batches = st.lists(lengths, min_size=1, max_size=4)
pairs = st.lists(st.tuples(lengths, lengths), min_size=1, max_size=4).map(
    lambda both: ([n for n, _ in both], [m for _, m in both])
)
