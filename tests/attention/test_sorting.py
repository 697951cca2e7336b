from __future__ import annotations

import pytest
import torch

from graphut.attention.kernel_library import compiled
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
    assert all(map(torch.equal, found, expected))
