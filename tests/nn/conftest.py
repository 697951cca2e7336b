from __future__ import annotations

from typing import Any

import pytest

from graphut.attention import EdgeLayout
from graphut.nn import MultiHeadAttention


@pytest.fixture
def edges_seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that receives the number of in-edges of each attention call."""
    seen = []

    def count_calls(name: str) -> None:
        attend = getattr(MultiHeadAttention, name)

        def counted(layer: Any, layout: EdgeLayout, *args: Any, **options: Any) -> Any:
            rows = options["frontier"] if options else args[2]
            seen.append(int(layout.in_degrees[slice(None) if rows is None else rows].sum()))
            return attend(layer, layout, *args, **options)

        monkeypatch.setattr(MultiHeadAttention, name, counted)

    count_calls("attend")
    count_calls("attend_memory")
    return seen
