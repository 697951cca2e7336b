import re
from typing import Any

import numpy as np
import pytest

from graphut.models.graph_columns import (
    ParsedGraph,
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
        *[(x, None) for x in ("1_0", "a", "", "[]", "1,,3", "1,2,", "0,5;1,5", "1 2,3")],
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
    assert read_mask([True, 1.0, None, "", 0], "m").tolist() == [True, True, False, False, False]
    for value in ([1.0, np.nan], [-1, 1], [2, 1], ["yes", "no"]):
        for column in (value, np.array(value)):
            refuses(r"m is .*; expected true or false, 1 or 0", read_mask, column, "m")


def test_with_loops_adds_the_missing_ones() -> None:
    edges = np.array([[0, 1, 1], [1, 1, 2]])
    assert with_loops(edges, 3).tolist() == [[0, 1, 1, 0, 2], [1, 1, 2, 0, 2]]


def parse(**columns: Any) -> ParsedGraph:
    return ParsedGraph.of({"ids": "xy", "graphs": [0, 0], "edges": EDGES, **columns})


def test_added_loops_have_neutral_attributes() -> None:
    two = np.array([[0, 1], [1, 0]])
    graph = parse(edges=two, edge_weights=[2, "1"], edge_features=[[3], 1e8 + 0.125])
    assert graph.edges.tolist() == [[0, 1, 0, 1], [1, 0, 0, 1]]
    assert graph.weights is not None and graph.weights.tolist() == [2, 1, 1, 1]
    arrays = graph.encoded(1, edge_feats=1)
    assert arrays.edge_feats is not None  # in float64
    assert arrays.edge_feats.tolist() == [[3], [1e8 + 0.125], [0], [0]]
    graph = parse(edge_weights=[1.0, 1])
    assert graph.weights is None and graph.encoded(1).edge_feats is None


def test_nodes_have_kinds_or_numbers() -> None:
    assert parse().encoded(1).nodes.tolist() == parse().encoded(["node"]).nodes.tolist() == [0, 0]
    assert parse(features=["a b", "c"]).encoded(["c", "a_b"]).nodes.tolist() == [1, 0]
    assert parse(features=[2, "0"]).encoded(3).nodes.tolist() == [2, 0]
    assert parse(features=["1, 2", [3, 4]]).encoded([], 2).nodes.tolist() == [[1, 2], [3, 4]]
    assert parse(features=np.zeros((2, 0))).nodes == ["node"] * 2


def test_parsed_graphs_refuse() -> None:
    def check(words: str, **columns: Any) -> None:
        refuses(words, parse, **columns)

    check("from 'y' to 'y' has no `weight`: give all of them as many", edge_weights=[1, None])
    check("has 'red' in `feat`", edge_features=["red", "red"])
    check("the edge from 'x' to 'y' has .inf. in `feat`; expected", edge_features=["inf", 1])
    words = "but a weight is a positive number: leave out edges of weight 0"
    check(rf"an edge has the weight \[0\.\], {words}", edge_weights=[0, 1])
    check(rf"an edge has the weight \[2\. 3\.\], {words}", edge_weights=["2 3", "2 3"])
    check("node 'y' has '' in `feat`, which is neither numbers", features=["a", ""])
    for text in ("[np.float64(0.5), 1.0]", "(0.5, x)", "0.5; 1", "tensor([1.0])"):
        check(f"'{re.escape(text)}' in `feat`, which is neither numbers", features=[text, text])
    refuses("an edge has 0 numbers in `feat`; expected 2", parse().encoded, 1, edge_feats=2)
    named = parse(features=["a", "b"]).encoded
    refuses("the kind of node 'b' is unknown; known are a", named, ["a"])
    refuses(r"the model has 3 kinds of nodes: .* int64 kinds from 0 to 2", named, 3)
    refuses("a node has a kind, or no `feat`; those .* have 2 numbers", named, ["a", "b"], 2)
