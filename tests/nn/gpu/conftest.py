from __future__ import annotations

import pytest
from torch import Tensor
from torch.nn.functional import pad

from graphut.attention import EdgeLayout, edge_attention


def sliced(
    layout: EdgeLayout,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    frontier: Tensor,
    dropout: float,
) -> Tensor:
    """Compute what `counted_attention` computes, by reading the count from the ids."""
    true = int((frontier < layout.num_dst).sum())
    rows = {"frontier": frontier[:true], "dropout": dropout, "seed": 3}
    out = edge_attention(
        layout, query[:true], key, value, **rows, backend="dense", allow_zero_in_degree=True
    )
    return pad(out, (0, 0, 0, 0, 0, len(query) - true))


@pytest.fixture
def by_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the recurrence run on the CPU as on a GPU; only attention reads the count."""
    monkeypatch.setattr("graphut.nn.attention.takes_counts", lambda *_, **__: True)
    monkeypatch.setattr("graphut.nn.attention.counted_attention", sliced)
