from __future__ import annotations

import pytest
import torch

from graphut.attention.counted_attention import takes_counts
from graphut.topology import Causal
from tests.helpers import layout_of

LAYOUT = Causal().layout([3, 2])


class Elsewhere(torch.Tensor):
    """Says that it is on a GPU."""

    is_cuda = True


def elsewhere() -> torch.Tensor:
    return torch.zeros(5, 4).as_subclass(Elsewhere)


def test_takes_counts_refuses_a_node_without_in_edges() -> None:
    layout = layout_of([(0, 0), (0, 2)], 3, 3)
    assert takes_counts("triton", layout, 2, elsewhere(), allow_zero_in_degree=True)
    with pytest.raises(ValueError, match=r"no in-edge to attend to \(node 1\)"):
        takes_counts("triton", layout, 2, elsewhere(), allow_zero_in_degree=False)


@pytest.mark.gpu
def test_takes_counts_on_a_gpu_for_dtypes_of_the_kernels() -> None:
    for dtype, takes in ((torch.float32, True), (torch.float64, False)):
        like = torch.zeros(5, 4, dtype=dtype, device="cuda")
        assert takes_counts("auto", LAYOUT, 2, like, allow_zero_in_degree=False) is takes
