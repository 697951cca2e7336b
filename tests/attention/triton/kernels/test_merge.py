from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")

from tests.attention.naive import hubs
from tests.attention.triton.cases import agrees, drawn, everything


@pytest.mark.parametrize("split", [2, 5])
@pytest.mark.parametrize("nodes", [None, [0, 3], [1, 2]], ids=["all", "with hub", "without"])
def test_merge_of_hubs_in_pieces(nodes: list[int] | None, split: int) -> None:
    layout = hubs(4, 4, 20)
    frontier = None if nodes is None else torch.tensor(nodes)
    tensors = drawn(layout, nodes and len(nodes))
    agrees(layout, tensors, frontier=frontier, split=split, **everything(layout))
