from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given

from graphut.attention import CSRLayout, IntervalLayout
from graphut.topology import Causal, Complete, Intersection, Topology, Union, Window
from tests.topology import brute
from tests.topology.brute import Back, Comb


@given(brute.topologies, brute.topologies, brute.lengths, brute.lengths)
def test_masks_combine_as_sets(left: Topology, right: Topology, n: int, m: int) -> None:
    assert torch.equal((left | right).mask(n, m), left.mask(n, m) | right.mask(n, m))
    assert torch.equal((left & right).mask(n, m), left.mask(n, m) & right.mask(n, m))


def interval_is_known(topology: Topology, n: int = 6) -> bool:
    dst, size = torch.arange(n), torch.full((n,), n)
    return topology.interval(dst, size, size) is not None


def test_an_intersection_of_intervals_is_one() -> None:
    assert interval_is_known(Window(1) & Causal())
    assert interval_is_known(Back(1) & Back(-1))
    assert not interval_is_known(Causal() & Comb())


def test_a_union_of_runs_that_overlap_or_touch_is_one() -> None:
    assert interval_is_known(Window(1) | Causal())
    assert interval_is_known(Back(1) | Back(0))
    assert interval_is_known(Back(9) | Back(0))  # the first sees nothing in this sentence
    assert not interval_is_known(Back(2) | Back(0))
    assert not interval_is_known(Causal() | Comb())


def test_a_ragged_union_may_turn_out_contiguous() -> None:
    assert isinstance((Back(2) | Back(0)).layout([6]), CSRLayout)
    assert isinstance((Back(2) | Back(0) | Back(1)).layout([6]), IntervalLayout)
    assert isinstance((Comb(2) & Window(0)).layout([6]), IntervalLayout)


def test_operators_bind_as_in_specs() -> None:
    assert Window(1) | Causal() & Complete() == Union(Window(1), Intersection(Causal(), Complete()))


@pytest.mark.parametrize("other", ["causal", None, 3])
def test_parts_are_topologies(other: Any) -> None:
    with pytest.raises(TypeError):
        Causal() | other
    with pytest.raises(TypeError):
        Causal() & other
    with pytest.raises(TypeError, match="is of topologies, got"):
        Union(Causal(), other)
    with pytest.raises(TypeError, match="is of topologies, got"):
        Intersection(other, Causal())
