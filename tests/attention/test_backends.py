from __future__ import annotations

import pytest
import torch

from graphut.attention import BACKENDS, Backend, edge_attention
from graphut.attention.backend import AttentionResult
from graphut.attention.backends import choose
from graphut.attention.call import AttentionCall
from graphut.topology import Causal
from tests.attention.naive import GRAPHS, inputs


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[AttentionCall]:
    """The calls that the backend "zeros" gets, plugged in for one test."""
    calls = []

    def zeros(call: AttentionCall) -> AttentionResult:
        calls.append(call)
        return AttentionResult(call.value.new_zeros(call.query.shape[0], *call.value.shape[1:]))

    monkeypatch.setitem(BACKENDS, "zeros", Backend(name="zeros", attend=zeros))
    return calls


def test_choose_takes_a_new_backend_by_name(calls: list[AttentionCall]) -> None:
    layout = Causal().layout([2])
    assert not edge_attention(layout, *inputs(layout), backend="zeros").any()
    assert calls[0].layout is layout
    assert calls[0].is_plain
    assert calls[0].scale == 3**-0.5


def test_edge_attention_gives_backends_a_scale_for_each_row_in_the_query(
    calls: list[AttentionCall],
) -> None:
    layout, scale = Causal().layout([2]), torch.tensor([2.0, 3.0]).double()
    query, key, value = inputs(layout)
    edge_attention(layout, query, key, value, scale=scale, backend="zeros")
    assert calls[0].scale == 1.0
    assert torch.equal(calls[0].query, query * scale[:, None, None])


@pytest.mark.parametrize("name", BACKENDS)
def test_choose_takes_the_named_backend_for_any_graph(
    name: str, calls: list[AttentionCall]
) -> None:
    for layout in GRAPHS.values():
        tensors = [x.float() for x in inputs(layout)]
        edge_attention(layout, *tensors, allow_zero_in_degree=True, backend="zeros")
    assert {choose(name, call) for call in calls} == {BACKENDS[name]}
