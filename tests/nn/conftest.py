from typing import Any

import pytest
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.key_value_memory import KeyValueMemory
from graphut.nn import MultiHeadAttention


@pytest.fixture
def edges_seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that receives the number of in-edges of each attention call."""
    seen: list[int] = []

    def count(layout: EdgeLayout, rows: Tensor | None) -> None:
        seen.append(int(layout.in_degrees[slice(None) if rows is None else rows].sum()))

    attend, attend_memory = MultiHeadAttention.attend, KeyValueMemory.attend

    def counted(layer: Any, layout: EdgeLayout, *args: Any, **options: Any) -> Any:
        count(layout, options["frontier"])
        return attend(layer, layout, *args, **options)

    def counted_memory(memory: Any, layout: EdgeLayout, query: Tensor, *args: Any) -> Any:
        count(layout, args[0])
        return attend_memory(memory, layout, query, *args)

    monkeypatch.setattr(MultiHeadAttention, "attend", counted)
    monkeypatch.setattr(KeyValueMemory, "attend", counted_memory)
    return seen
