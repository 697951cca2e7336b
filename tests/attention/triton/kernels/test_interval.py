from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")

from graphut.topology import Causal, Complete, Window
from tests.attention.triton.cases import agrees, drawn, everything, rows_of


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


def test_cut_rows_takes_more_sentences_and_blocks_than_it_has_lanes() -> None:
    many = Complete().layout([1] * 130)
    assert rows_of(many, None, 2) == [[i, i + 1] for i in range(130)]
    long = Window(1).layout([260])
    assert rows_of(long, None, 2) == [[i, i + 2] for i in range(0, 260, 2)]
