from __future__ import annotations

import torch

from graphut.topology import Causal, Complete


def test_complete_has_every_pair() -> None:
    assert Complete().mask(4).all()
    assert Complete().mask(2, 5).all() and Complete().mask(5, 2).all()
    assert Complete().layout([3, 5]).num_edges == 9 + 25


def test_causal_sees_sources_up_to_the_destination() -> None:
    assert torch.equal(Causal().mask(6), torch.ones(6, 6, dtype=torch.bool).tril())
    assert Causal().layout([3, 5]).num_edges == 6 + 15


def test_causal_compares_positions_when_the_sides_differ() -> None:
    assert torch.equal(Causal().mask(4, 2), Causal().mask(4)[:, :2])
    assert torch.equal(Causal().mask(2, 4), Causal().mask(4)[:2])
