from typing import Any

import pytest

from graphut.attention import EdgeLayout
from graphut.nn import MultiHeadAttention


@pytest.fixture
def edges_seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that receives the number of in-edges of each attention call."""
    seen: list[int] = []

    attend = MultiHeadAttention.forward

    def counted(layer: Any, layout: EdgeLayout, *args: Any, **options: Any) -> Any:
        rows = options["frontier"]
        seen.append(int(layout.in_degrees[slice(None) if rows is None else rows].sum()))
        return attend(layer, layout, *args, **options)

    monkeypatch.setattr(MultiHeadAttention, "forward", counted)
    return seen
