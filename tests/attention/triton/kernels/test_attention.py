from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")

from graphut.attention.layout import IntervalLayout
from graphut.attention.triton import launches
from graphut.topology import Causal, Complete, Window
from tests.attention.triton.cases import agrees, drawn, everything


@pytest.mark.parametrize("topology", [Complete(), Causal(), Window(9)], ids=str)
def test_interval_kernels_at_more_than_a_block_of_rows_and_sources(topology: Any) -> None:
    layout = topology.layout([70, 2, 35])
    agrees(layout, drawn(layout, heads=1))
    nodes = torch.arange(0, 107, 2)
    agrees(layout, drawn(layout, 54, heads=1), frontier=nodes, **everything(layout, heads=1))


def test_rows_kernels_take_intervals_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    one = torch.tensor([3])
    lo, hi = torch.tensor([2, 0, 1]), torch.tensor([3, 2, 3])
    layout = IntervalLayout(lo=lo, hi=hi, num_src=3, src_lengths=one, dst_lengths=one)
    monkeypatch.setattr(launches, "tile_sizes", None)
    agrees(layout, drawn(layout), **everything(layout))


def test_rows_kernels_take_heads_too_wide_for_a_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "WIDEST", 16)
    monkeypatch.setattr(launches, "tile_sizes", None)
    layout = Causal().layout([3, 2])
    agrees(layout, drawn(layout, widths=(17, 3)))
