from __future__ import annotations

import torch

from graphut.nn.frontier import ActiveRows


def test_active_rows_keep_halting_rows_for_one_step() -> None:
    rows = ActiveRows(torch.arange(4.0)[:, None], None, 4)
    split = rows.advance(torch.arange(10.0, 14.0)[:, None], torch.tensor([0, 1, 0, 1]).bool())
    assert split.halting_nodes is not None and split.halting_nodes.tolist() == [1, 3]
    assert rows.nodes is not None and rows.nodes.tolist() == [0, 2] and rows.num_active == 2
    assert rows.last().flatten().tolist() == [10, 11, 12, 13]  # projected once more
    assert rows.active().flatten().tolist() == [10, 12]
    rows.advance(torch.tensor([[20.0], [22.0]]), torch.tensor([False, True]))
    assert rows.last_nodes is not None and rows.last_nodes.tolist() == [0, 2]
    assert rows.nodes.tolist() == [0] and rows.active().tolist() == [[20.0]]
