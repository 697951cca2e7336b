from __future__ import annotations

import torch
from matplotlib.figure import Figure

from graphut.plotting.arcs import arcs, edge_style, frame_arcs


def test_arcs_run_clockwise_from_source_to_destination() -> None:
    found = arcs(torch.tensor([0, 4]), torch.tensor([2, 1]))
    torch.testing.assert_close(found[:, 0], torch.tensor([[0.0, 0.0], [4.0, 0.0]]))
    torch.testing.assert_close(found[:, -1], torch.tensor([[2.0, 0.0], [1.0, 0.0]]))
    assert found[0, 16, 1] == 1.0 and found[1, 16, 1] == -1.5  # later ones above the line


def test_edge_style_is_thin_and_faint_for_many_lines() -> None:
    few, many = edge_style(0), edge_style(100_000)
    assert (few["linewidths"], few["alpha"]) == (1.0, 1.0)
    assert many["linewidths"] == 0.25 and many["alpha"] == 0.1


def test_frame_arcs_leaves_room_for_every_arc() -> None:
    axes = Figure().add_subplot()
    frame_arcs(axes, 5, [4, -2])
    low, high = axes.get_ylim()
    assert low < -1.0 and high > 2.0 and not axes.spines["left"].get_visible()
