import torch

from graphut.attention import as_layout
from graphut.topology import Causal, Complete
from graphut.topology.batch import graph_from_layouts
from tests.helpers import cross_edges

SEES, READS = ("token", "sees", "token"), ("fact", "reads", "token")


def test_graph_from_layouts_shares_nodes_and_keeps_layouts() -> None:
    layouts = {SEES: Causal().layout([2, 3]), READS: cross_edges(Complete(), [2, 3], [4, 1])}
    graph = graph_from_layouts(layouts)
    assert graph.idtype == torch.int64
    assert graph.num_nodes("token") == 5 and graph.num_nodes("fact") == 5
    assert graph.batch_num_nodes("fact").tolist() == [4, 1]
    assert graph.batch_num_edges(SEES).tolist() == [3, 6]
    assert graph.batch_num_edges(READS).tolist() == [8, 3]
    assert as_layout(graph, SEES) is layouts[SEES] and as_layout(graph, "reads") is layouts[READS]
    graph.batch_num_nodes("fact")[0] = 1
    assert layouts[READS].src_lengths.tolist() == [4, 1]  # a copy
