from __future__ import annotations

from typing import Any

import pytest
import torch

from graphut.models.decoding.decoder import EncodedSource, PrefixDecoder
from graphut.topology import parse
from graphut.topology.cross import cross_topology
from tests.helpers import assert_same, pairs_of
from tests.models.cases import LatterHalf
from tests.models.decoding.cases import build_setting, growth

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


def test_edges_to_sees_the_last_token_beyond_the_source() -> None:
    source = EncodedSource(torch.zeros(10, 2), torch.tensor(LENGTHS), cross_topology("window:0"))
    assert pairs_of(source.edges_to(torch.tensor([0, 1, 2]), 4)) == [(3, 0), (4, 1), (9, 2)]


@pytest.mark.parametrize("spec", ["causal & edges:1,1,1,2", "edges:0,0,2,0,1,1,1,2"])
def test_edges_to_names_a_token_that_sees_nothing(spec: str) -> None:
    source = EncodedSource(torch.zeros(10, 2), torch.tensor(LENGTHS), cross_topology(spec))
    source.edges_to(torch.tensor([0, 2]), 2)
    with pytest.raises(ValueError, match="gives token 3 of a target no source token"):
        source.edges_to(torch.tensor([0, 2]), 3)


@pytest.mark.parametrize("halted", ["copied", "frozen", "stale", "running"])
@pytest.mark.parametrize(
    "topologies",
    [
        {"topology": LatterHalf.name},
        {"cross": f"{LatterHalf.name} | window:3"},
        {"topology": f"{LatterHalf.name} & window:3", "cross": "window:5"},
    ],
    ids=lambda topologies: "-".join(topologies),
)
def test_prefix_decoder_follows_an_unstable_topology(
    halted: str, topologies: dict[str, Any]
) -> None:
    setting = build_setting(halted=halted, **topologies)
    decoder = setting.decoder(PrefixDecoder)
    for parents, tokens, sentences, prefixes in growth():
        assert_same(decoder.advance(parents, tokens), setting.fed(sentences, prefixes))


@pytest.mark.parametrize("halted", ["copied", "frozen", "stale", "running"])
@pytest.mark.parametrize("topology", ["star&causal", "(window:1|virtual:2)&causal"])
def test_prefix_decoder_has_the_extra_nodes_of_the_prefix(halted: str, topology: str) -> None:
    setting = build_setting(halted=halted, topology=topology)
    cross = setting.recurrence.step.cross_attention
    assert cross is not None
    cross.allow_zero_in_degree = True
    decoder = setting.decoder(PrefixDecoder)
    for parents, tokens, sentences, prefixes in growth():
        assert_same(decoder.advance(parents, tokens), setting.fed(sentences, prefixes))
