from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="needs triton")

from graphut.topology import Complete, Window
from tests.attention.triton.cases import rows_of


def test_cut_rows_takes_more_sentences_and_blocks_than_it_has_lanes() -> None:
    many = Complete().layout([1] * 130)
    assert rows_of(many, None, 2) == [[i, i + 1] for i in range(130)]
    long = Window(1).layout([260])
    assert rows_of(long, None, 2) == [[i, i + 2] for i in range(0, 260, 2)]
