from __future__ import annotations

from typing import Any

import networkx
import numpy as np
import pytest
import torch

from graphut import Vocabulary
from graphut._dgl import dgl
from graphut.models import (
    UniversalGraphTransformer,
    UniversalGraphTransformerConfig,
    graph_inputs,
    graph_transformer,
)
from graphut.models.graph_inputs import as_input, graph_list, raw_columns
from graphut.nn import EventDriven
from tests.helpers import refuses

SIZES = {"d_model": 8, "num_heads": 2, "d_hidden": 8, "classes": 3}


def config_of(**options: Any) -> UniversalGraphTransformerConfig:
    return UniversalGraphTransformerConfig(**SIZES, **options)


def triangle() -> dgl.DGLGraph:
    graph = dgl.graph(([0, 1, 1, 1], [1, 2, 0, 1]))
    graph.ndata["feat"] = torch.arange(6.0).view(3, 2)
    return graph


def test_raw_columns_of_dgl_and_pyg_are_the_same() -> None:
    data = pytest.importorskip("torch_geometric.data")
    graph = triangle()
    graph.ndata.update(label=torch.tensor([0, 1, 1]), train_mask=torch.tensor([True, False, True]))
    other = data.Data(
        x=graph.ndata["feat"],
        edge_index=torch.stack(graph.edges()),
        y=graph.ndata["label"],
        train_mask=graph.ndata["train_mask"],
    )
    found, wanted = raw_columns(other), raw_columns(graph)
    assert found.keys() == wanted.keys() >= {"edges", "features", "labels", "train_mask", "graphs"}
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def test_graph_list_splits_batches_and_reads_iterables() -> None:
    data = pytest.importorskip("torch_geometric.data")
    loader = pytest.importorskip("torch_geometric.loader")
    few = [data.Data(x=torch.rand(n, 2), edge_index=torch.tensor([[0], [0]])) for n in (1, 2, 3)]
    batch = data.Batch.from_data_list(few)
    for graphs in (few, iter(few), batch, [batch], loader.DataLoader(few, batch_size=2)):
        assert [graph.num_nodes for graph in graph_list(graphs)] == [1, 2, 3]
    joined, labels = dgl.batch([dgl.rand_graph(n, 1) for n in (1, 2, 3)]), torch.arange(3)
    assert [graph.num_nodes() for graph in graph_list(joined)] == [1, 2, 3]
    for pair in ([joined, labels], (joined, labels)):  # a list in a loader of DGL
        found = [(graph.num_nodes(), int(label)) for graph, label in graph_list([pair])]
        assert found == [(1, 0), (2, 1), (3, 2)]


def test_predict_of_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("torch_geometric.datasets")
    fake = datasets.FakeDataset(num_graphs=7, avg_num_nodes=9, num_channels=3)
    for graphs, num_feats, sizes in (
        (datasets.KarateClub(), 34, [34]),
        (fake, 3, [graph.num_nodes for graph in fake]),
        (fake[:5], 3, [graph.num_nodes for graph in fake[:5]]),
        ([(triangle(), 0)], 2, [3]),  # as a data set of DGL with labels of graphs
    ):
        model = UniversalGraphTransformer(config_of(num_feats=num_feats))
        found = model.predict(graphs)
        assert [len(each.steps) for each in found] == sizes
        with monkeypatch.context() as patched:
            patched.setattr(graph_transformer, "_MOST_NODES", 2 * max(sizes))
            for again, each in zip(model.predict(graphs), found, strict=True):
                torch.testing.assert_close(again.probabilities, each.probabilities)


def test_raw_columns_refuses_other_objects() -> None:
    several = dgl.heterograph({("a", "to", "b"): ([0], [1])})
    for graph, found in (
        (several, r"Graph\(num_nodes={'a': 1, 'b': 2}"),
        (None, "None"),
    ):
        refuses(rf"a homogeneous DGL graph, .*, got {found}", raw_columns, graph)
    data = pytest.importorskip("torch_geometric.data")
    for name, value, message in (
        ("edge_attr", torch.zeros(3, 2), "edge_attr has 3 rows; expected 1"),
        ("x", torch.zeros(1, 2, dtype=torch.complex64), "x are neither numbers nor text"),
        ("edge_index", torch.tensor([[0], [1]]), "an edge has node 1, but there are 1 nodes"),
        ("edge_index", torch.tensor([[0, 0]]), r"edges must be \(2, E\) integers; got \(1, 2\)"),
        ("edge_index", torch.tensor([[False], [False]]), "integers; got .* of bool"),
    ):
        graph = data.Data(torch.zeros(1, 2), torch.tensor([[0], [0]]))
        graph[name] = value
        refuses(message, raw_columns, graph)


@pytest.mark.parametrize("num_feats", [0, 2])
def test_predict_equals_forward(num_feats: int) -> None:
    kinds = {"num_feats": num_feats, "num_kinds": int(num_feats == 0)}
    model = UniversalGraphTransformer(config_of(**kinds)).eval()
    model.vocabularies = {"answer": Vocabulary(["no", "maybe", "yes"])}
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
    model = UniversalGraphTransformer(config_of(num_feats=2, answer_at="graph"))
    assert model.predict([]) == [] and model.training
    refuses("as of networkx.read_graphml, got 'clubs.graphml'", model.predict, "clubs.graphml")
    assert model.predict(triangle())[0].labels[0] in (0, 1, 2)


def test_predict_of_graphs_of_networkx_equals_predict_of_graphs_of_dgl() -> None:
    graph = networkx.Graph([("a", "b", {"weight": np.float32(2)}), ("b", "c", {"weight": 0.5})])
    feats = {"a": (0, np.float32(1)), "b": np.array([2, 3]), "c": torch.tensor([4.0, 5.0])}
    networkx.set_node_attributes(graph, feats, "feat")
    other = dgl.graph(([0, 1, 1, 2], [1, 0, 2, 1]))
    other.ndata["feat"] = torch.arange(6.0).view(3, 2)
    other.edata["weight"] = torch.tensor([2.0, 2.0, 0.5, 0.5])
    model = UniversalGraphTransformer(config_of(num_feats=2)).eval()
    found, expected = (model.predict(each)[0].probabilities for each in (graph, other))
    torch.testing.assert_close(found, expected)


def test_as_input_refuses_features_that_do_not_fit() -> None:
    graph = triangle()
    words = "a node has 2 numbers in `feat`; those of the model or of other graphs have 3 numbers"
    refuses(words, as_input, graph, config_of(num_feats=3))
    refuses("4 kinds of nodes: set ndata.* from 0 to 3", as_input, graph, config_of(num_kinds=4))
    graph.ndata["feat"][1, 1] = float("inf")
    refuses(r"node 1 has \[inf\] in `feat`; expected", as_input, graph, config_of(num_feats=2))
    graph.ndata["feat"] = torch.tensor([0, 3, 1])
    assert as_input(graph, config_of(num_kinds=4)).nodes.tolist() == [0, 3, 1]


def test_as_input_reads_what_files_may_hold() -> None:
    config = config_of(num_feats=2, edge_feats=1)
    graph = triangle()
    wanted = graph.ndata["feat"].numpy()
    graph.edata["feat"] = torch.tensor([1.0, -1.0, 3.0, 2.0])
    found = as_input(graph, config)
    assert found.edge_feats is not None
    assert found.edge_feats.tolist() == [[1], [-1], [3], [2], [0], [0]]
    data = pytest.importorskip("torch_geometric.data")
    edges, plain = torch.stack(graph.edges()), config_of(num_feats=2)
    for convert in (torch.Tensor.bfloat16, torch.Tensor.to_sparse):
        other = data.Data(convert(graph.ndata["feat"]), edges)
        np.testing.assert_array_equal(as_input(other, plain).nodes, wanted)
    empty = as_input(data.Data(torch.zeros(3, 0), edges), config_of(num_kinds=1))
    assert empty.nodes.tolist() == [0, 0, 0]
    for formats in ("csc", "csr", "coo"):
        restricted = as_input(graph.formats(formats), config)
        np.testing.assert_array_equal(restricted.edges, found.edges)
        np.testing.assert_array_equal(restricted.edge_feats, found.edge_feats)
    graph.ndata["feat"] = torch.full((3, 2), float("inf"), dtype=torch.float16)
    refuses(r"node 0 has \[inf\] in `feat`; expected finite numbers", as_input, graph, config)


@pytest.mark.parametrize("messages", ["none", "max"])
def test_predict_of_edge_features_and_weights(messages: str) -> None:
    config = config_of(num_feats=2, edge_feats=2, messages=messages)
    model = UniversalGraphTransformer(config).eval()
    graph = triangle()
    graph.edata["feat"] = torch.rand(4, 2)
    graph.edata["weight"] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    found = as_input(graph, config)
    assert found.edge_feats is not None and found.edge_weights is not None
    assert found.edge_feats[4:].tolist() == [[0, 0]] * 2
    assert found.edge_weights.tolist() == [1, 2, 3, 4, 1, 1]
    feats = torch.from_numpy(found.edge_feats)
    counted = torch.cat([torch.arange(6), torch.tensor([1, 2, 2, 3, 3, 3])])  # edges by weight
    edges = torch.from_numpy(found.edges)[:, counted]
    output = model(edges, graph.ndata["feat"], edge_feats=feats[counted])
    if messages == "none":  # as many parallel edges as the weight
        [prediction] = model.predict(graph)
        torch.testing.assert_close(prediction.probabilities, output.logits.softmax(1).detach())
    without = model(torch.from_numpy(found.edges), graph.ndata["feat"], edge_feats=0 * feats)
    assert (without.logits - output.logits).abs().max() > 1e-4


@pytest.mark.parametrize("given", [{}, {"edge_attr": torch.zeros(0, 3)}])
def test_predict_of_graphs_without_edges(given: dict[str, Any]) -> None:
    data = pytest.importorskip("torch_geometric.data")
    model = UniversalGraphTransformer(config_of(num_feats=2, edge_feats=3)).eval()
    nodes, edges = torch.rand(3, 2), torch.zeros(2, 0, dtype=torch.int64)
    alone = [data.Data(nodes[k : k + 1], edges, **given) for k in range(3)]
    [found] = model.predict(data.Data(nodes, torch.tensor([[0], [0]]), torch.zeros(1, 3)))
    for k, each in enumerate(model.predict(alone)):
        torch.testing.assert_close(each.probabilities[0], found.probabilities[k])
    assert len(model.predict(data.Data(nodes[:0], edges, **given))[0].steps) == 0


def test_predict_values() -> None:
    graph = triangle()
    model = UniversalGraphTransformer(config_of(num_feats=2, answer_kind="values"))
    before = model.predict(graph)[0].values
    model.value_mean.fill_(5.0)
    model.value_scale.fill_(2.0)
    [found] = model.predict(graph)
    assert found.labels == [] and found.probabilities is None
    torch.testing.assert_close(found.values, 2 * before + 5)


def test_until_quiescent_leaves_the_evaluation_rule_derived_from_the_rule() -> None:
    model = UniversalGraphTransformer(config_of(num_kinds=1, adaptive=False, step_signal="none"))
    model.rule = EventDriven()
    with graph_inputs.until_quiescent(model, 9):
        assert model.evaluation_rule == EventDriven(max_rounds=136)
    model.rule = EventDriven(0.2)
    assert model.evaluation_rule == EventDriven(0.2)
