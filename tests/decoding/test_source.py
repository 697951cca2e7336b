from __future__ import annotations

import pytest
import torch

from graphut.attention import IntervalLayout
from graphut.decoding import EncodedSource
from graphut.topology import parse
from tests.helpers import pairs_of

LENGTHS = [4, 1, 5]


@pytest.mark.parametrize("spec", ["complete", "window:1", "window:0 | window:2 & causal"])
@pytest.mark.parametrize("place", [0, 1])
def test_edges_are_the_last_row_of_the_mask(spec: str, place: int) -> None:
    source = EncodedSource(torch.zeros(10, 2), torch.tensor(LENGTHS), parse(spec))
    sentences, first = torch.tensor([2, 0, 2, 1]), [0, 4, 5]
    expected = [
        (first[sentence] + j, row)
        for row, sentence in enumerate(sentences.tolist())
        for j in parse(spec).mask(place + 1, LENGTHS[sentence])[-1].nonzero()[:, 0].tolist()
    ]
    layout = source.edges_to(sentences, place)
    assert sorted(pairs_of(layout)) == sorted(expected)
    assert (layout.num_dst, layout.num_src) == (4, 10)


def test_contiguous_edges_make_an_interval_layout() -> None:
    source = EncodedSource(torch.zeros(10, 2), torch.tensor(LENGTHS), parse("complete"))
    assert isinstance(source.edges_to(torch.tensor([1, 2]), 3), IntervalLayout)
