from __future__ import annotations

import torch
from hypothesis import given

from graphut.topology.batch import as_lengths, positions, starts
from tests.topology import brute


@given(brute.batches)
def test_nodes_are_numbered_within_their_sentences(batch: list[int]) -> None:
    lengths = as_lengths(batch)
    assert lengths.dtype == torch.int64
    assert starts(lengths).tolist() == [sum(batch[:i]) for i in range(len(batch))]
    assert positions(lengths).tolist() == [i for n in batch for i in range(n)]
