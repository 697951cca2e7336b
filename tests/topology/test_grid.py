from __future__ import annotations

import pytest
import torch

from graphut.topology import Axial, Complete, Patch, Window


@pytest.mark.parametrize(("height", "width"), [(5, 4), (1, 7), (7, 1)])
def test_axial_number_of_edges_on_a_whole_grid(height: int, width: int) -> None:
    expected = height * width * (height + width - 1)
    assert Axial(width).num_edges(height * width) == expected


@pytest.mark.parametrize("width", [1, 7, 10**12])
def test_axial_single_row_or_column_is_complete(width: int) -> None:
    assert torch.equal(Axial(width).mask(7), Complete().mask(7))


@pytest.mark.parametrize(("height", "width", "radius"), [(5, 4, 1), (9, 7, 2), (8, 8, 0)])
def test_patch_number_of_edges_on_a_whole_grid(height: int, width: int, radius: int) -> None:
    side, corner = 2 * radius + 1, radius * (radius + 1)
    expected = (side * height - corner) * (side * width - corner)
    assert Patch(width, radius).num_edges(height * width) == expected


def test_patch_of_a_small_grid_is_complete() -> None:
    assert torch.equal(Patch(3, 10**12).mask(7), Complete().mask(7))


def test_patch_in_one_row_is_a_window() -> None:
    assert torch.equal(Patch(10**12, 2).mask(7), Window(2).mask(7))
