from __future__ import annotations

from graphut.experiments.bench.peers.padded import prepare_padded
from tests.experiments.bench.cases import SIZES, problem


def test_inputs_lie_in_a_rectangle_before_anything_is_timed() -> None:
    case = problem()
    lengths = SIZES.lengths()
    table = prepare_padded(case).sources.spread(case.inputs[1])
    assert table.shape == (3, int(lengths.max()), 2, 4)
    assert table.count_nonzero() == case.inputs[1].count_nonzero()
