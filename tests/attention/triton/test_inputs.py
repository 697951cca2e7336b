from __future__ import annotations

import torch

from graphut.attention.triton.inputs import active_rows, packed, padded


def test_active_rows_may_end_in_ids_of_no_destination() -> None:
    active = active_rows(6, torch.tensor([1, 4, 8, 8]))
    assert active.slot is not None
    assert active.slot[:6].tolist() == [-1, 0, -1, -1, 1, -1]
    assert active.first_row(torch.tensor([0, 4, 6])).tolist() == [0, 1, 2]


def test_packed_does_not_copy_rows_of_a_projection() -> None:
    joint = torch.randn(4, 3, 2, 5)
    query = joint[:, 1]
    assert packed(query) is query
    assert packed(query[:0]).shape == (0, 2, 5)


def test_padded_widths_are_what_a_matrix_unit_takes() -> None:
    assert [padded(width) for width in (1, 16, 17, 64, 65)] == [16, 16, 32, 64, 128]
