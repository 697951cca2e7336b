from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.models.decoding.prefix import PrefixDecoder
from graphut.topology import Topology
from tests.helpers import assert_same
from tests.models.decoding.cases import build_setting, growth


@dataclass(frozen=True)
class LatterHalf(Topology):
    """Causal, but how far a token looks back depends on how long the sentence is."""

    name = "latter_half_of_prefix_tests"

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        return dst - n_dst // 2, dst + 1


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


def test_prefix_decoder_case_is_causal_and_unstable() -> None:
    topology = LatterHalf()
    assert topology.is_causal() and not topology.stable
    assert not torch.equal(topology.mask(3), topology.mask(4)[:3, :3])
