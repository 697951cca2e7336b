from __future__ import annotations

import pytest
import torch

from graphut.experiments.bench import Sizes
from graphut.experiments.bench.contender import Entry
from graphut.experiments.bench.peers import sentences
from graphut.experiments.bench.peers.sentences import prepare_sentences
from graphut.topology import Causal, Complete, Topology
from tests.experiments.bench.cases import problem
from tests.topology.brute import Comb


@pytest.mark.parametrize(
    ("topology", "masked", "causal"),
    [(Complete(), False, False), (Causal(), False, True), (Comb(2), True, False)],
    ids=str,
)
def test_a_mask_only_where_one_is_needed(
    topology: Topology, masked: bool, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = torch.nn.functional.scaled_dot_product_attention, []

    def spy(*args: torch.Tensor, attn_mask: torch.Tensor | None, is_causal: bool) -> torch.Tensor:
        seen.append((attn_mask is not None, is_causal))
        return real(*args, attn_mask=attn_mask, is_causal=is_causal)

    monkeypatch.setattr(sentences, "scaled_dot_product_attention", spy)
    case = problem(topology=topology, sizes=Sizes(3, 4, 4), forward_only=True)
    Entry(case, prepare_sentences(case))()
    assert seen == [(masked, causal)] * 3
