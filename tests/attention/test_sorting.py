from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensorMode

from graphut.attention import sorting
from graphut.attention.library import compiled
from graphut.attention.sorting import sorted_by_torch, stable_order


@pytest.mark.skipif(compiled() is None, reason="the compiled kernels are not built")
@pytest.mark.parametrize(("entries", "buckets"), [(0, 3), (0, 0), (1, 1), (50, 7), (3000, 5000)])
def test_stable_order_is_that_of_torch(entries: int, buckets: int) -> None:
    random = torch.Generator().manual_seed(entries)
    numbers = torch.randint(max(1, buckets), (2 * entries,), generator=random)[::2]
    for order in (None, torch.randperm(entries, generator=random)):
        found, expected = (
            sort(numbers, buckets, order) for sort in (stable_order, sorted_by_torch)
        )
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_stable_order_without_kernels_sorts_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "compiled", lambda: None)
    starts, order = stable_order(torch.tensor([1, 0, 1]), 2, torch.tensor([2, 1, 0]))
    assert (starts.tolist(), order.tolist()) == ([0, 1, 3], [1, 2, 0])


def test_stable_order_of_numbers_that_are_not_there() -> None:
    with FakeTensorMode():
        starts, order = stable_order(torch.ones(5, dtype=torch.int64), 3)
    assert (starts.shape, order.shape) == ((4,), (5,))


def test_stable_order_inside_of_a_transform() -> None:
    numbers = torch.tensor([1, 0])

    def sort_and_add(x: torch.Tensor) -> torch.Tensor:
        starts, order = stable_order(numbers, 2)
        assert (starts.tolist(), order.tolist()) == ([0, 1, 2], [1, 0])
        return x.sum()

    assert torch.func.grad(sort_and_add)(torch.zeros(2)).tolist() == [1.0, 1.0]
