from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensorMode

from graphut.attention import sorting
from graphut.attention.library import compiled
from graphut.attention.sorting import sort_edges, sort_edges_by_torch

EDGES = torch.tensor([1, 0, 1, 0]), torch.tensor([1, 0, 1, 1])
SORTED = [[0, 1, 4], [0, 0, 1, 1], [1, 3, 0, 2]]


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
    assert all(map(torch.equal, found, expected))


def test_sort_edges_where_the_kernels_cannot_be_called(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    torch.func.grad(lambda x: found.append(sort_edges(*EDGES, 2, 2)) or x.sum())(torch.zeros(2))
    monkeypatch.setattr(sorting, "compiled", lambda: None)
    found.append(sort_edges(*EDGES, 2, 2))
    assert [[x.tolist() for x in each] for each in found] == [SORTED, SORTED]
    with FakeTensorMode():
        ones = torch.ones(5, dtype=torch.int64)
        assert [x.shape for x in sort_edges(ones, ones, 3, 2)] == [(3,), (5,), (5,)]
