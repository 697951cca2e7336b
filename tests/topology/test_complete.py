from __future__ import annotations

from graphut.topology import Complete


def test_every_pair_is_an_edge() -> None:
    assert Complete().mask(4).all()
    assert Complete().mask(2, 5).all() and Complete().mask(5, 2).all()
    assert Complete().layout([3, 5]).num_edges == 9 + 25
