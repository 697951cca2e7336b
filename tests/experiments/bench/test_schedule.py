from __future__ import annotations

from graphut.experiments.bench.schedule import FRACTIONS, depths, nobody_halts


def test_the_frontiers_have_the_sizes_of_the_schedule() -> None:
    depth = depths(1000)
    sizes = [int((depth >= step).sum()) for step in range(1, 9)]
    assert sizes == [1000, 900, 700, 500, 300, 200, 100, 50]
    assert depth.equal(depths(1000))


def test_every_node_takes_a_step() -> None:
    assert int(depths(1).min()) >= 1
    assert nobody_halts(3).tolist() == [len(FRACTIONS)] * 3
