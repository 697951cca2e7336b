from __future__ import annotations

from typing import Any

import pytest
import torch

from graphut.attention import edge_attention
from graphut.attention.counted_attention import counted_attention, takes_counts
from graphut.topology import Causal
from tests.helpers import assert_same, layout_of, normal

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


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_counted_attention_is_that_of_the_rows_of_destinations(
    dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton", reason="needs triton")
    from tests.attention.triton.interpreter import skip_unless_kernels_run

    skip_unless_kernels_run()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    monkeypatch.setattr(torch, "randint", lambda *_: torch.tensor(7))
    frontier = torch.tensor([1, 4, 5])
    query, key, value = (normal(n, 2, 4, dtype=torch.float32).detach() for n in (3, 5, 5))
    options: dict[str, Any] = {"dropout": dropout}
    found = counted_attention(
        LAYOUT.to(device),
        *(x.to(device) for x in (query, key, value)),
        frontier=frontier.to(device),
        **options,
    )
    rows = {"frontier": frontier[:2], "seed": 7, "backend": "dense"}
    expected = edge_attention(LAYOUT, query[:2], key, value, **rows, **options)
    assert_same([found[:2].cpu()], [expected], 1e-5)
    assert not found[2:].any()


@pytest.mark.gpu
def test_takes_counts_on_a_gpu_for_dtypes_of_the_kernels() -> None:
    for dtype, takes in ((torch.float32, True), (torch.float64, False)):
        like = torch.zeros(5, 4, dtype=dtype, device="cuda")
        assert takes_counts("auto", LAYOUT, 2, like, allow_zero_in_degree=False) is takes
