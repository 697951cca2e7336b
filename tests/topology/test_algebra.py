from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphut.attention import CSRLayout, IntervalLayout
from graphut.topology import (
    Causal,
    Complete,
    Intersection,
    Random,
    Star,
    Topology,
    Union,
    Virtual,
    Window,
    node_positions,
)
from graphut.topology.algebra import contains, merge
from tests.topology import brute
from tests.topology.brute import Back, Comb


@given(brute.topologies, brute.topologies, brute.lengths, brute.lengths)
def test_masks_of_union_and_intersection_combine_as_sets(
    left: Topology, right: Topology, n: int, m: int
) -> None:
    assert torch.equal((left | right).mask(n, m), left.mask(n, m) | right.mask(n, m))
    assert torch.equal((left & right).mask(n, m), left.mask(n, m) & right.mask(n, m))


def interval_is_known(topology: Topology, n: int = 6) -> bool:
    dst, size = torch.arange(n), torch.full((n,), n)
    return topology.interval(dst, size, size) is not None


def test_intersection_of_intervals_is_an_interval() -> None:
    assert interval_is_known(Window(1) & Causal())
    assert interval_is_known(Back(1) & Back(-1))
    assert not interval_is_known(Causal() & Comb())


def test_union_of_intervals_that_touch_is_an_interval() -> None:
    assert interval_is_known(Window(1) | Causal())
    assert interval_is_known(Back(1) | Back(0))
    assert interval_is_known(Back(9) | Back(0))  # the first sees nothing in this sentence
    assert not interval_is_known(Back(2) | Back(0))
    assert not interval_is_known(Causal() | Comb())


def test_union_of_ragged_edges_may_become_intervals() -> None:
    assert isinstance((Back(2) | Back(0)).layout([6]), CSRLayout)
    assert isinstance((Back(2) | Back(0) | Back(1)).layout([6]), IntervalLayout)
    assert isinstance((Comb(2) & Window(0)).layout([6]), IntervalLayout)


def test_operators_bind_as_in_specs() -> None:
    assert Window(1) | Causal() & Complete() == Union(Window(1), Intersection(Causal(), Complete()))


def test_causal_is_an_intersection() -> None:
    assert Window(1).causal() == Window(1) & Causal()


@given(brute.with_extra_nodes, brute.lengths)
def test_union_keeps_extra_nodes_of_both_sides(topology: Topology, n: int) -> None:
    both = topology | Virtual(2)
    extra = topology.num_nodes(n)
    assert both.num_nodes(n) == extra + 2
    mask = both.mask(n)
    assert torch.equal(mask[:extra, :extra], topology.mask(n))
    assert mask[:n, extra:].all() and mask[extra:, :n].all() and not mask[extra:, n:].any()


def test_union_sorted_in_edges_of_given_destinations() -> None:
    topology = Random(2, seed=1) | Virtual(1)
    n = torch.tensor([5, 3])
    row, source = topology.sorted_in_edges(n, n, n)
    assert (row.tolist(), source.tolist()) == ([0] * 5 + [1] * 3, [0, 1, 2, 3, 4, 0, 1, 2])


def test_intersection_takes_an_extra_node_as_last_token_of_its_span() -> None:
    causal = (Star() & Causal()).mask(3)
    assert causal[:, 3].tolist() == [False, False, True, True] and causal[3].all()
    assert torch.equal((Causal() & Star()).mask(3), causal)


def test_intersection_refuses_extra_nodes_on_both_sides() -> None:
    with pytest.raises(ValueError, match="'star' and 'virtual:1' both have extra nodes"):
        Star() & Virtual(1)


@pytest.mark.parametrize("other", ["causal", None, 3])
def test_union_and_intersection_refuse_other_types(other: Any) -> None:
    with pytest.raises(TypeError):
        Causal() | other
    with pytest.raises(TypeError):
        Causal() & other
    with pytest.raises(TypeError, match="combine two topologies, got"):
        Union(Causal(), other)
    with pytest.raises(TypeError, match="combine two topologies, got"):
        Intersection(other, Causal())


sets = st.sets(st.integers(0, 30))


def ascending(values: set[int]) -> torch.Tensor:
    return torch.tensor(sorted(values), dtype=torch.int64)


@given(sets, sets)
def test_merge_is_the_union_of_sets(one: set[int], other: set[int]) -> None:
    assert merge(ascending(one), ascending(other)).tolist() == sorted(one | other)


@given(sets, st.lists(st.integers(-3, 40)))
def test_contains_is_membership(values: set[int], asked: list[int]) -> None:
    found = contains(ascending(values), torch.tensor(asked, dtype=torch.int64))
    assert found.tolist() == [value in values for value in asked]


@dataclass(frozen=True)
class Listed(Topology):
    """Two extra nodes, whose spans are looked up by their numbers."""

    name = "listed"

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        return torch.arange(len(dst)), dst

    def extra_nodes(self, n: Tensor) -> Tensor:
        return torch.full_like(n, 2)

    def extra_spans(self, extra: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        first = torch.tensor([0, 1])[extra]
        return first, torch.minimum(first + 1, n)


def test_union_asks_each_side_for_its_own_extra_nodes_alone() -> None:
    own = node_positions(Listed(), [3]).tolist()
    both = node_positions(Listed() | Virtual(3), [3]).tolist()
    assert both[:5] == own
    assert node_positions(Virtual(3) | Listed(), [3]).tolist() == [*own[:3], *both[5:], *own[3:]]
    mask = ((Listed() | Virtual(3)) & Causal()).mask(3)
    assert torch.equal(mask[:5, :5], (Listed() & Causal()).mask(3))
