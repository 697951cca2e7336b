from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensorMode

from graphut.attention import sorting
from graphut.attention.library import compiled
from graphut.attention.sorting import sort_edges, sort_edges_by_torch


@pytest.mark.skipif(compiled() is None, reason="the compiled kernels are not built")
@pytest.mark.parametrize(
    ("edges", "num_src", "num_dst"),
    [(0, 3, 2), (0, 0, 0), (1, 1, 1), (50, 7, 3), (300, 2, 5), (3000, 5000, 900)],
)
def test_sort_edges_is_that_of_torch(edges: int, num_src: int, num_dst: int) -> None:
    random = torch.Generator().manual_seed(edges)
    src, dst = (  # any strides
        torch.randint(max(1, nodes), (edges, 2), generator=random)[:, 0]
        for nodes in (num_src, num_dst)
    )
    found, expected = (
        sort(src, dst, num_src, num_dst) for sort in (sort_edges, sort_edges_by_torch)
    )
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_sort_edges_without_kernels_sorts_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "compiled", lambda: None)
    found = sort_edges(torch.tensor([1, 0, 1, 0]), torch.tensor([1, 0, 1, 1]), 2, 2)
    assert [x.tolist() for x in found] == [[0, 1, 4], [0, 0, 1, 1], [1, 3, 0, 2]]


def test_sort_edges_of_numbers_that_are_not_there() -> None:
    with FakeTensorMode():
        ones = torch.ones(5, dtype=torch.int64)
        shapes = [x.shape for x in sort_edges(ones, ones, 3, 2)]
    assert shapes == [(3,), (5,), (5,)]


def test_sort_edges_inside_of_a_transform() -> None:
    src, dst = torch.tensor([0, 1]), torch.tensor([1, 0])

    def sort_and_add(x: torch.Tensor) -> torch.Tensor:
        expected = [0, 1, 2], [1, 0], [1, 0]
        found = sort_edges(src, dst, 2, 2)
        assert all(torch.equal(a, torch.tensor(b)) for a, b in zip(found, expected, strict=True))
        return x.sum()

    assert torch.func.grad(sort_and_add)(torch.zeros(2)).tolist() == [1.0, 1.0]
