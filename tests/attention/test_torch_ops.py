from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from graphut.attention.backend import AttentionCall
from graphut.attention.torch_ops import TORCH, torch_attention
from tests.attention.naive import GRAPHS, inputs


@pytest.mark.parametrize(
    ("graph", "options", "tiled"),
    [
        ("causal", {}, True),
        ("rows", {}, False),
        ("causal", {"dropout": 0.5}, False),
        ("causal", {"need_weights": True}, False),
        ("causal", {"edge_bias": torch.zeros(14, 1)}, False),
    ],
)
def test_torch_attention_takes_tiles_for_plain_calls_on_intervals(
    graph: str, options: dict[str, Any], tiled: bool
) -> None:
    query, key, value = inputs(GRAPHS[graph])
    call = AttentionCall(layout=GRAPHS[graph], query=query, key=key, value=value)
    call = replace(call, **options)
    assert (torch_attention(call).weights is None) is tiled
    assert TORCH.auto_rank is not None
    assert TORCH.auto_rank(call) == (1 if tiled else 3)  # before and after "dgl"
