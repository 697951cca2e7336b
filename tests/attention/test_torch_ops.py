from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from graphut.attention import edge_attention, edge_sums
from graphut.attention.call import AttentionCall
from graphut.attention.torch_ops import TORCH, torch_attention
from tests.attention.naive import GRAPHS, hubs, inputs
from tests.helpers import assert_same, gradients, normal


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


class LargestTensor(TorchDispatchMode):
    """Notes how many entries the largest tensor made has."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, Tensor):
                self.entries = max(self.entries, tensor.numel())
        return out


def both_ways(backend: str, graph: str) -> list[Tensor]:
    layout = GRAPHS[graph]
    bias, tensors = normal(layout.num_edges, 2, seed=4), list(inputs(layout, value_feats=4))
    out = edge_attention(layout, *tensors, edge_bias=bias, dropout=0.3, seed=1, backend=backend)
    return [out, *gradients([out], [*tensors, bias])]


@pytest.mark.parametrize("entries", [1, 6, 7, 50])
@pytest.mark.parametrize("graph", ["rows", "parallel", "causal"])
def test_segment_attention_in_chunks_of_any_size(
    graph: str, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_sums, "_ENTRIES", entries)
    assert_same(both_ways("torch", graph), both_ways("dense", graph))


def test_segment_attention_makes_no_tensor_of_edges_by_heads_by_features(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edges, heads, feats, chunk = 20_000, 2, 16, 4096
    monkeypatch.setattr(edge_sums, "_ENTRIES", chunk)
    layout = hubs(50, 50, edges)
    tensors = [normal(50, heads, feats, seed=seed) for seed in range(3)]
    with LargestTensor() as largest:
        gradients([edge_attention(layout, *tensors, backend="torch")], tensors)
    assert largest.entries <= edges * heads
