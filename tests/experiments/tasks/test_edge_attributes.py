from __future__ import annotations

from typing import Any

import pytest

from graphut.experiments.tasks.edge_attributes import read_edge_attributes


def test_edge_attributes_of_loops_are_neutral() -> None:
    found = read_edge_attributes([{"weight": 2, "feat": [3]}, {"weight": "1", "feat": 4}], 2)
    assert found.weights is not None and found.weights.tolist() == [2, 1, 1, 1]
    rows = found.encoded([], 1, 4)
    assert rows is not None and rows.tolist() == [[3], [4], [0], [0]]
    assert read_edge_attributes([{"weight": 1.0}, {"weight": 1}], 1).weights is None
    nothing = read_edge_attributes([{}, {"label": 3}], 1)
    assert (nothing.weights, nothing.feats, nothing.types) == (None, None, None)
    assert nothing.encoded([], 0, 3) is None


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([{"weight": 1}, {}], "an edge has {}: give all edges the same count of numbers as weight"),
        (
            [{"feat": "1,2"}, {"feat": "1"}],
            "an edge has {'feat': '1'}: give all edges .* as feat or edge_attr",
        ),
        ([{"feat": "red"}], "an edge has {'feat': 'red'}"),
        ([{"weight": 0}], "an edge has the weight 0.0, but weights are positive: leave out"),
        ([{"weight": "nan"}], "an edge has the weight nan"),
        ([{"feat": "inf"}], "a feature that is not a finite number"),
    ],
)
def test_edge_attributes_refuse(edges: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_edge_attributes(edges, 0)
