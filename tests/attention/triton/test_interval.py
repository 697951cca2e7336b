from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="needs triton")

from graphut.attention.triton import interval
from graphut.attention.triton.interval import source_blocks
from graphut.topology import Causal, Complete
from tests.attention.triton.cases import by_kernels, drawn, rows_of


def test_row_blocks_are_cut_by_sentence_and_block() -> None:
    layout = Complete().layout([5, 1, 2])
    assert rows_of(layout, None, 2) == [[0, 2], [2, 4], [4, 5], [5, 6], [6, 8]]
    assert rows_of(layout, None, 16) == [[0, 5], [5, 6], [6, 8]]


def test_row_blocks_of_a_frontier_are_packed_before_they_are_cut() -> None:
    layout = Complete().layout([5, 1, 2, 3])
    assert rows_of(layout, [0, 2, 4, 9, 10], 2) == [[0, 2], [2, 3], [3, 5]]
    assert rows_of(layout, [5], 2) == [[0, 1]]


class Launches:
    """Launches a kernel, and keeps the numbers that a variant is compiled for."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.numbers: list[dict[str, Any]] = []

    def __getitem__(self, grid: Any) -> Any:
        def launch(**arguments: Any) -> None:
            self.numbers.append({k: x for k, x in arguments.items() if not isinstance(x, Tensor)})
            self.kernel[grid](**arguments)

        return launch


def test_kernels_have_one_variant_whatever_the_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("interval_forward", "interval_query", "interval_source", "cut_rows")
    kernels = {name: Launches(getattr(interval, name)) for name in names}
    for name, kernel in kernels.items():
        monkeypatch.setattr(interval, name, kernel)
    for lengths, nodes in (([2], None), ([40, 3], None), ([40, 3], [0, 39, 41]), ([1, 1], [1])):
        layout = Complete().layout(lengths)
        options = {} if nodes is None else {"frontier": torch.tensor(nodes)}
        by_kernels(layout, drawn(layout, nodes and len(nodes), heads=1), **options)
    for name in names[:3]:
        first, *others = kernels[name].numbers
        assert len(others) == 3 and all(other == first for other in others)
    # For each batch the blocks of rows, for both passes, and those of sources.
    assert len(kernels["cut_rows"].numbers) == 4 + 4


def test_source_blocks_are_seen_by_their_own_sentence_alone() -> None:
    blocks = Causal().layout([3, 2]).cached(source_blocks, 2)
    assert (blocks.first.tolist(), blocks.last.tolist()) == ([0, 2, 3], [2, 3, 5])
    assert blocks.seen_by.T.tolist() == [[0, 3], [2, 3], [3, 5]]
