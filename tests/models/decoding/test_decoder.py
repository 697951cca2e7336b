from __future__ import annotations

import pytest
import torch

from graphut.attention import IntervalLayout
from graphut.models.decoding.decoder import EncodedSource, LiveHypotheses
from graphut.topology import parse
from graphut.topology.cross import cross_topology
from tests.helpers import pairs_of

LENGTHS = [4, 1, 5]


@pytest.mark.parametrize("spec", ["complete", "window:1", "window:0 | window:2 & causal"])
@pytest.mark.parametrize("place", [0, 1])
def test_edges_to_equals_the_last_row_of_the_mask(spec: str, place: int) -> None:
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


def test_edges_to_makes_an_interval_layout_of_contiguous_edges() -> None:
    source = EncodedSource(torch.zeros(10, 2), torch.tensor(LENGTHS), parse("complete"))
    assert isinstance(source.edges_to(torch.tensor([1, 2]), 3), IntervalLayout)


def test_edges_to_sees_the_last_token_beyond_the_source() -> None:
    source = EncodedSource(torch.zeros(10, 2), torch.tensor(LENGTHS), cross_topology("window:0"))
    assert pairs_of(source.edges_to(torch.tensor([0, 1, 2]), 4)) == [(3, 0), (4, 1), (9, 2)]


@pytest.mark.parametrize("spec", ["causal & edges:1,1,1,2", "edges:0,0,2,0,1,1,1,2"])
def test_edges_to_names_a_token_that_sees_nothing(spec: str) -> None:
    source = EncodedSource(torch.zeros(10, 2), torch.tensor(LENGTHS), cross_topology(spec))
    source.edges_to(torch.tensor([0, 2]), 2)
    with pytest.raises(ValueError, match="leaves token 3 of a target without a source"):
        source.edges_to(torch.tensor([0, 2]), 3)


def test_live_hypotheses_follow_their_parents() -> None:
    rows = LiveHypotheses()
    assert rows.length == 0
    for parents, ids in (([2, 0, 1], [5, 6, 7]), ([1, 1, 0, 2], [8, 9, 10, 11]), ([3, 0], [1, 2])):
        rows.extend(torch.tensor(parents), torch.tensor(ids))
    assert rows.ids.tolist() == [[7, 11, 1], [6, 8, 2]]
    assert (rows.sentences.tolist(), rows.length) == ([1, 0], 3)
