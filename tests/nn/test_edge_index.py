from __future__ import annotations

from typing import Any

import pytest
import torch

from graphut._dgl import dgl
from graphut.nn import from_edge_index
from tests.helpers import assert_same, pairs_of
from tests.nn.cases import build_case, engine

EDGES = torch.tensor([[3, 0, 0, 2, 1, 3, 0, 1], [0, 0, 1, 1, 2, 3, 1, 3]])  # one edge twice


def test_from_edge_index_keeps_order_and_direction_of_edges() -> None:
    layout = from_edge_index(EDGES, 5)
    assert pairs_of(layout) == list(map(tuple, EDGES.T.tolist()))
    assert (layout.num_src, layout.num_dst) == (5, 5)
    assert layout.in_degrees.tolist() == [2, 3, 1, 2, 0]


def test_from_edge_index_gives_the_same_recurrence_as_a_dgl_graph() -> None:
    case = build_case(graph=from_edge_index(EDGES, 4))
    graph = dgl.graph((EDGES[0], EDGES[1]), num_nodes=4)
    found = engine(case.layer, case.graph, case.feat, positions=case.positions)
    assert_same(found, engine(case.layer, graph, case.feat, positions=case.positions))


@pytest.mark.parametrize(
    ("arguments", "batch", "error", "match"),
    [
        (([[0], [1]], 2), None, TypeError, "must be an int64 tensor, got list"),
        ((EDGES.float(), 4), None, TypeError, "must be an int64 tensor, got torch.float32"),
        ((EDGES.T, 4), None, ValueError, r"must be \(2, E\), got shape \(8, 2\)"),
        ((EDGES, 3), None, ValueError, "refers to source node 3, but x has only 3 rows"),
        ((EDGES, 4), [0, 1, 0, 1], ValueError, "sorted and have one entry for each of the 4 nodes"),
        ((EDGES, 4), [0, 1], ValueError, "sorted and have one entry for each of the 4 nodes"),
        ((EDGES, (4, 4)), [0] * 4, ValueError, "batch must be omitted for a bipartite graph"),
    ],
)
def test_from_edge_index_refuses_arguments_that_do_not_fit(
    arguments: Any, batch: list[int] | None, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        from_edge_index(*arguments, batch=None if batch is None else torch.tensor(batch))
