from __future__ import annotations

import numpy as np
import pytest
import torch

from graphut._dgl import dgl
from graphut.models import UniversalGraphTransformer, UniversalGraphTransformerConfig, graph_inputs
from graphut.models.graph_inputs import GraphInput, as_input, in_groups, raw_arrays, with_loops

SIZES = {"d_model": 8, "num_heads": 2, "d_hidden": 8, "classes": 3}


def triangle() -> dgl.DGLGraph:
    graph = dgl.graph(([0, 1, 2, 1], [1, 2, 0, 1]))
    graph.ndata["feat"] = torch.arange(6.0).view(3, 2)
    return graph


def test_raw_arrays_of_dgl_and_pyg_are_the_same() -> None:
    data = pytest.importorskip("torch_geometric.data")
    graph = triangle()
    graph.ndata.update(label=torch.tensor([0, 1, 1]), train_mask=torch.tensor([True, False, True]))
    other = data.Data(
        x=graph.ndata["feat"],
        edge_index=torch.stack(graph.edges()),
        y=graph.ndata["label"],
        train_mask=graph.ndata["train_mask"],
    )
    found, wanted = raw_arrays(other), raw_arrays(graph)
    assert found.keys() == wanted.keys() >= {"edges", "features", "labels", "train_mask", "graphs"}
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def test_raw_arrays_refuses_other_objects() -> None:
    several = dgl.heterograph({("a", "to", "b"): ([0], [1])})
    for graph in (several, "graph"):
        with pytest.raises(TypeError, match="expected a homogeneous DGL graph or a Data of PyG"):
            raw_arrays(graph)


def test_with_loops_adds_the_missing_ones() -> None:
    edges = np.array([[0, 1, 1], [1, 1, 2]])
    assert with_loops(edges, 3).tolist() == [[0, 1, 1, 0, 2], [1, 1, 2, 0, 2]]


@pytest.mark.parametrize("num_feats", [0, 2])
def test_predict_equals_forward(num_feats: int) -> None:
    kinds = {"num_feats": num_feats, "num_kinds": int(num_feats == 0)}
    config = UniversalGraphTransformerConfig(**SIZES, **kinds, class_names="no maybe yes")
    model = UniversalGraphTransformer(config).eval()
    graph = triangle()
    feat = graph.ndata.pop("feat")
    nodes = feat if num_feats else torch.zeros(3, dtype=torch.int64)
    if num_feats:
        graph.ndata["feat"] = feat
    output = model(dgl.add_self_loop(dgl.remove_self_loop(graph)), nodes)
    for found in (*model.predict(graph), *model.predict([graph, graph])):
        torch.testing.assert_close(found.probabilities, output.logits.softmax(1).detach())
        assert found.labels == [("no", "maybe", "yes")[k] for k in output.logits.argmax(1)]
        assert found.steps.tolist() == output.ponder.steps.tolist()


def test_predict_without_names_or_graphs() -> None:
    config = UniversalGraphTransformerConfig(**SIZES, num_feats=2, answer_at="graph")
    model = UniversalGraphTransformer(config)
    assert model.predict([]) == []
    assert model.predict(triangle())[0].labels[0] in (0, 1, 2)
    assert model.training


def test_predict_refuses_features_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="a node has 2 features; the model needs 3"):
        as_input(triangle(), 3, 0)
    with pytest.raises(ValueError, match=r"4 kinds of nodes: give \(N,\) int64 kinds"):
        as_input(triangle(), 0, 4)
    graph = triangle()
    graph.ndata["feat"] = torch.tensor([0, 3, 1])
    assert as_input(graph, 0, 4).nodes.tolist() == [0, 3, 1]


def test_in_groups_keeps_order_and_size() -> None:
    graphs = [GraphInput(np.zeros((2, 0), np.int64), np.zeros(n, np.int64)) for n in (2, 3, 9, 1)]
    found = [[len(graph.nodes) for graph in group] for group in in_groups(graphs, 5)]
    assert found == [[2, 3], [9], [1]] and [*in_groups([])] == []


def test_until_quiescent_leaves_other_rules() -> None:
    model = UniversalGraphTransformer(UniversalGraphTransformerConfig(**SIZES, num_kinds=1))
    rule = model.evaluation_rule
    with graph_inputs.until_quiescent(model, 9):
        assert model.evaluation_rule == rule
