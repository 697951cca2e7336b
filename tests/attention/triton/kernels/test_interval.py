from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")

from graphut.topology import Causal, Complete, Window
from tests.attention.triton.cases import agrees, drawn, everything


@pytest.mark.parametrize("length", [1, 2, 17])
@pytest.mark.parametrize("topology", [Complete(), Causal(), Window(3)], ids=str)
def test_interval_kernels_at_lengths(topology: Any, length: int) -> None:
    layout = topology.layout([length, 3])
    agrees(layout, drawn(layout, heads=1))


@pytest.mark.parametrize("topology", [Complete(), Causal(), Window(9)], ids=str)
def test_interval_kernels_at_more_than_a_block_of_rows_and_sources(topology: Any) -> None:
    layout = topology.layout([70, 2, 35])
    agrees(layout, drawn(layout, heads=1))
    nodes = torch.arange(0, 107, 2)
    agrees(layout, drawn(layout, 54, heads=1), frontier=nodes, **everything(layout, heads=1))
