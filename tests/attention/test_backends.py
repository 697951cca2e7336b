from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphut.attention import BACKENDS, Backend, edge_attention
from graphut.attention.backend import AttentionResult
from graphut.attention.backends import candidates, check_backend, choose
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


def test_candidates_are_backends_that_can_do_the_call_without_the_oracle() -> None:
    for layout in GRAPHS.values():
        query, key, value = inputs(layout)
        call = AttentionCall(layout=layout, query=query, key=key, value=value)
        found = candidates(call)
        assert all(BACKENDS[name].can_do(call) for name in found)
        assert sorted(set(found) - {"native"}) == ["dgl", "torch"]
        assert "native" not in candidates(replace(call, need_weights=True))


@pytest.mark.parametrize("name", [name for name in BACKENDS if not BACKENDS[name].returns_weights])
def test_choose_takes_torch_for_weights_that_a_backend_does_not_return(name: str) -> None:
    query, key, value = (x.float() for x in inputs(GRAPHS["causal"]))
    call = AttentionCall(layout=GRAPHS["causal"], query=query, key=key, value=value)
    assert choose(name, replace(call, need_weights=True)) is BACKENDS["torch"]


def test_check_backend_names_the_known_ones() -> None:
    check_backend("auto")
    with pytest.raises(ValueError, match=r"unknown backend 'abacus'; choose one of: auto, dense"):
        check_backend("abacus")
