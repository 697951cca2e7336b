from __future__ import annotations

import torch

from graphut.topology import Causal


def test_sources_up_to_the_destination_are_seen() -> None:
    assert torch.equal(Causal().mask(6), torch.ones(6, 6, dtype=torch.bool).tril())
    assert Causal().layout([3, 5]).num_edges == 6 + 15


def test_positions_are_compared_as_they_are_when_the_sides_differ() -> None:
    assert torch.equal(Causal().mask(4, 2), Causal().mask(4)[:, :2])
    assert torch.equal(Causal().mask(2, 4), Causal().mask(4)[:2])
