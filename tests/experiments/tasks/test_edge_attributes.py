from __future__ import annotations

from typing import Any

import pytest

from graphut.experiments.tasks import Vocabulary
from graphut.experiments.tasks.edge_attributes import EdgeAttributes


def test_edge_attributes_of_loops_are_neutral() -> None:
    found = EdgeAttributes.read([{"weight": 2, "feat": [3]}, {"weight": "1", "feat": 4}], 2)
    assert found.weights is not None and found.weights.tolist() == [2, 1, 1, 1]
    rows = found.encoded(Vocabulary([]), 1, 4)
    assert rows is not None and rows.tolist() == [[3], [4], [0], [0]]
    assert EdgeAttributes.read([{"weight": 1.0}, {"weight": 1}], 1).weights is None
    nothing = EdgeAttributes.read([{}, {"label": 3}], 1)
    assert (nothing.weights, nothing.feats, nothing.types) == (None, None, None)
    assert nothing.encoded(Vocabulary([]), 0, 3) is None


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([{"weight": 1}, {}], "has None as weight or edge_weight; expected 1 numbers, as the"),
        ([{"feat": "1,2"}, {"feat": "1"}], "'1' as feat or edge_attr; expected 2 numbers"),
        ([{"feat": "red"}], "'red' as feat or edge_attr; expected numbers"),
        ([{"weight": 0}], "an edge has the weight 0.0, but weights are positive: leave out"),
        ([{"weight": "nan"}], "an edge has the weight nan"),
        ([{"feat": "inf"}], "a feature that is not a finite number"),
    ],
)
def test_edge_attributes_refuse(edges: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EdgeAttributes.read(edges, 0)


def test_encoded_refuses_what_the_model_does_not_have() -> None:
    typed = EdgeAttributes.read([{"type": "a"}], 0)
    with pytest.raises(ValueError, match="its edges have types, unlike the other graphs"):
        typed.encoded(Vocabulary([]), 0, 1)
    with pytest.raises(ValueError, match="unknown symbol 'a'; known are: b"):
        typed.encoded(Vocabulary("b"), 0, 1)
    with pytest.raises(ValueError, match="an edge has 0 numbers in `feat`; expected 2"):
        typed.encoded(Vocabulary("a"), 2, 1)
