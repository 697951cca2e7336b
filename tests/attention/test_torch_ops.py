from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphut.attention.call import AttentionCall
from graphut.attention.torch_ops import TORCH, torch_attention
from tests.attention.naive import GRAPHS, inputs


def call_of(graph: str) -> AttentionCall:
    query, key, value = inputs(GRAPHS[graph])
    return AttentionCall(layout=GRAPHS[graph], query=query, key=key, value=value)


@pytest.mark.parametrize(("graph", "tiled"), [("causal", True), ("rows", False)])
def test_torch_attention_takes_tiles_for_intervals(graph: str, tiled: bool) -> None:
    call = call_of(graph)
    assert (torch_attention(call).weights is None) is tiled
    assert TORCH.auto_rank is not None
    assert TORCH.auto_rank(call) == (1 if tiled else 3)  # before and after "dgl"


def test_torch_attention_takes_segments_for_single_edges() -> None:
    call = call_of("causal")
    for options in ({"dropout": 0.5}, {"need_weights": True}):
        assert torch_attention(replace(call, **options)).weights is not None
    bias = torch.zeros(call.layout.num_edges, 1)
    assert torch_attention(replace(call, edge_bias=bias)).weights is not None
