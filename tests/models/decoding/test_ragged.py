from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from graphut.models.decoding.ragged import RaggedTable

CAP = 4
DEPTHS = st.lists(st.lists(st.integers(1, CAP), min_size=1, max_size=5), min_size=1, max_size=5)


@given(DEPTHS)
def test_a_node_shows_its_last_row_for_ever(batches: list[list[int]]) -> None:
    table, shown = RaggedTable(CAP), []
    for depths in batches:
        nodes = table.add_nodes(len(depths))
        assert nodes.tolist() == list(range(len(shown), len(shown) + len(depths)))
        for step in range(1, max(depths) + 1):
            deep = nodes[torch.tensor(depths) >= step]
            table.write(deep, step, (10.0 * deep + step)[:, None])
        pairs = zip(nodes.tolist(), depths, strict=True)
        shown += [[10.0 * n + min(t, d) for t in range(1, CAP + 1)] for n, d in pairs]
    expected = torch.tensor(shown)
    for step in range(1, CAP + 1):
        nodes = torch.arange(len(shown)).flip(0)
        assert torch.equal(table.read(nodes, step)[:, 0], expected.flip(0)[:, step - 1])


def test_reads_have_the_shape_of_what_is_asked() -> None:
    table = RaggedTable(2)
    nodes = table.add_nodes(3)
    table.write(nodes, 1, torch.arange(6.0).reshape(3, 2))
    found = table.read(torch.tensor([[2, 0], [1, 1]]), 2)
    assert found.tolist() == [[[4, 5], [0, 1]], [[2, 3], [2, 3]]]


def test_it_keeps_one_row_a_write() -> None:
    table = RaggedTable(100)
    for _ in range(50):
        table.write(table.add_nodes(2), 1, torch.zeros(2, 8))
    assert table._rows is not None and table._rows.shape[0] <= 2 * 100 + 2
