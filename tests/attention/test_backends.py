from __future__ import annotations

from dataclasses import replace

import pytest

from graphut.attention import BACKENDS
from graphut.attention.backends import candidates, check_backend, choose
from graphut.attention.call import AttentionCall
from tests.attention.naive import GRAPHS, inputs


def calls() -> list[AttentionCall]:
    """A plain call on each graph."""
    given = [(layout, *(x.float() for x in inputs(layout))) for layout in GRAPHS.values()]
    return [AttentionCall(layout=g, query=q, key=k, value=v) for g, q, k, v in given]


@pytest.mark.parametrize("name", BACKENDS)
def test_choose_takes_the_named_backend_unless_it_lacks_weights(name: str) -> None:
    assert {choose(name, call) for call in calls()} == {BACKENDS[name]}
    weighing = BACKENDS[name if BACKENDS[name].returns_weights else "torch"]
    assert choose(name, replace(calls()[0], need_weights=True)) is weighing


def test_candidates_are_backends_that_can_do_the_call_without_the_oracle() -> None:
    for call in calls():
        found = candidates(call)
        assert all(BACKENDS[name].can_do(call) for name in found)
        assert sorted(set(found) - {"native"}) == ["dgl", "torch"]
        assert "native" not in candidates(replace(call, need_weights=True))


def test_check_backend_names_the_known_ones() -> None:
    check_backend("auto")
    with pytest.raises(ValueError, match=r"unknown backend 'abacus'; choose one of: auto, dense"):
        check_backend("abacus")
