from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="needs triton")

from graphut.attention.triton.csr import by_source
from tests.attention.naive import GRAPHS


def test_by_source_is_made_once_for_each_split() -> None:
    layout = GRAPHS["hubs"]
    assert layout.cached(by_source, 3) is layout.cached(by_source, 3)
    assert layout.cached(by_source, 3).pieces.owner.numel() > 0
    assert layout.cached(by_source, 99).pieces.owner.numel() == 0
