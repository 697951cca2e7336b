from typing import Any

import numpy as np
import pytest

from graphut.models.graph_columns import (
    EdgeAttributes,
    is_one_way,
    number_rows,
    read_mask,
    row_of_numbers,
    with_loops,
)
from tests.helpers import refuses

EDGES = np.array([[0, 1], [1, 1]])


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (3, [3]),
        ([1, "0.5"], [1, 0.5]),
        ("1, .5", [1, 0.5]),
        ("[1. 0.5 ]", [1, 0.5]),
        ("(2; 1)", [2, 1]),
        *[(x, None) for x in ("1_0", "a", "", "[]", "1,,3", "1,2,", "0,5;1,5", "1 2,3", "[1, 2")],
        *[(x, None) for x in (None, [1, None], [[1]], {"a": 1}, 10**400)],
    ],
)
def test_row_of_numbers(value: Any, row: list[float] | None) -> None:
    assert row_of_numbers(value) == row


def test_number_rows_refuses() -> None:
    def check(words: str, column: Any) -> None:
        refuses(words, number_rows, column, "feat", "row {}".format)

    check(r"row 1 has \[inf\] in `feat`; expected finite", np.array([1, np.inf], np.float16))
    check(r"row 1 has \[-9223372036854775808\]", np.array([0, -(2**63)]))
    check(r"row 1 has \[nan\] in `feat`; expected finite numbers from -1e\+15 to 1e", ["1", "nan"])
    check("row 1 has '1,2' in `feat`: give all of them as many numbers", ["1", "1,2"])
    check("row 0 has '1,,3' in `feat`", ["1,,3", "1,2,3"])
    check("row 1 has no `feat`", [1, None])


def test_read_mask() -> None:
    words = [True, "false", 1.0, "0.0", None, " TRUE ", "", 0]
    assert read_mask(words, "m").tolist() == [True, False, True, False, False, True, False, False]
    for value in ([1.0, np.nan], [-1, 1], [2, 1], ["yes", "no"], ["nan", "1"]):
        for column in (value, np.array(value)):
            refuses(r"m is .*; expected true or false, 1 or 0", read_mask, column, "m")


def test_is_one_way_needs_an_edge_and_no_reverse_in_the_same_graph() -> None:
    path, back, loops = np.array([[0, 1], [1, 2]]), np.array([[1], [0]]), np.array([[0, 1]] * 2)
    assert is_one_way([path]) and is_one_way([path, loops, back])
    assert not is_one_way([path, np.append(path, back, 1)]) and not is_one_way([loops])


def test_with_loops_adds_the_missing_ones() -> None:
    edges = np.array([[0, 1, 1], [1, 1, 2]])
    assert with_loops(edges, 3).tolist() == [[0, 1, 1, 0, 2], [1, 1, 2, 0, 2]]


def test_edge_attributes_of_loops_are_neutral() -> None:
    edges = np.array([[0, 1, 0, 1], [1, 0, 0, 1]])
    columns = {"edge_weights": [2, "1"], "edge_features": [[3], 4]}
    attributes = EdgeAttributes.of(columns, edges, "xy", 2)
    assert attributes.weights is not None and attributes.weights.tolist() == [2, 1, 1, 1]
    rows = attributes.encoded([], 1, edges)
    exact = EdgeAttributes.of({"edge_features": [1e8 + 0.125, 1]}, edges, "xy", 2)
    assert exact.encoded([], 1, edges)[0, 0] == 1e8 + 0.125  # type: ignore[index]
    assert rows is not None and rows.tolist() == [[3], [4], [0], [0]]
    assert EdgeAttributes.of({"edge_weights": [1.0, 1]}, edges, "xy", 2).weights is None
    nothing = EdgeAttributes.of({"edge_types": [-1, ""]}, edges, "xy", 2)
    assert nothing == (None, None, None) and nothing.encoded([], 0, edges) is None


def test_edge_attributes_refuse() -> None:
    def check(words: str, name: str, values: list[Any]) -> None:
        refuses(words, EdgeAttributes.of, {f"edge_{name}": values}, EDGES, "xy")

    check("from 'y' to 'y' has no `weight`: give all of them as many", "weights", [1, None])
    check("has 'red' in `feat`", "features", ["red", "red"])
    check("the edge from 'x' to 'y' has .inf. in `feat`; expected finite", "features", ["inf", 1])
    check("an edge has the weight 0.0, but weights are positive: leave out", "weights", [0, 1])
    check(r"the weight \[2\.0, 3\.0\], but a weight is one number: give", "weights", ["2 3", "2 3"])
    check(r"the type of an edge must be one name or number; got \[2, 3\]", "types", [[2, 3], 1])


def test_encoded_edges_refuse_types_that_the_model_does_not_have() -> None:
    typed = EdgeAttributes.of({"edge_types": ["a"]}, EDGES, "xy", 1)
    refuses("an edge has the type 'a'; the model knows none", typed.encoded, [], 0, EDGES)
    refuses("an edge has the type 'a'; known types are b, c", typed.encoded, ["b", "c"], 2, EDGES)
    refuses("an edge has 0 numbers in `feat`; expected 2", typed.encoded, ["a"], 3, EDGES)
