from __future__ import annotations

import torch

from graphut.attention.triton.inputs import active_rows, packed, padded


def test_active_rows_without_a_frontier_are_the_destinations() -> None:
    active = active_rows(4, None)
    assert (active.nodes, active.rows, active.slot) == (None, 4, None)
    assert active.first_row(torch.tensor([0, 3, 4])).tolist() == [0, 3, 4]


def test_active_rows_of_a_frontier() -> None:
    active = active_rows(6, torch.tensor([1, 2, 5]))
    assert active.slot is not None
    assert active.slot[:6].tolist() == [-1, 0, 1, -1, -1, 2]
    first = active.first_row(torch.tensor([0, 2, 3, 6]))
    assert (first.dtype, first.tolist()) == (torch.int32, [0, 1, 2, 3])


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


def test_packed_copies_rows_with_gaps() -> None:
    for gaps in (torch.randn(4, 2, 9)[..., :5], torch.randn(4, 5, 2).mT, torch.randn(4, 1, 5)):
        gaps = gaps.expand(4, 2, 5)
        found = packed(gaps)
        assert found is not gaps and found.is_contiguous()
        assert torch.equal(found, gaps)


def test_padded_widths_are_what_a_matrix_unit_takes() -> None:
    assert [padded(width) for width in (1, 16, 17, 64, 65)] == [16, 16, 32, 64, 128]
