from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from graphut.experiments.tasks.base import PARTS
from graphut.experiments.tasks.own_graphs import Graphs

TINY = "--d-model 8 --num-heads 2 --d-hidden 8 --max-steps 3 --epochs 2 --batch-size 4 --device cpu"


def write_many(folder: Path, count: int = 20) -> Path:
    """Paths and rings, to be told apart as wholes."""
    folder.mkdir(exist_ok=True)
    for index in range(count):
        make = networkx.cycle_graph if index % 2 else networkx.path_graph
        graph = make(3 + index)
        graph.graph["label"] = "ring" if index % 2 else "path"
        networkx.write_graphml(graph, folder / f"{index:02}.graphml")
    return folder


def write_one(path: Path, **masks: Any) -> Path:
    """One graph whose nodes have two features, and labels but for the first."""
    graph = networkx.karate_club_graph()
    for node, data in graph.nodes(data=True):
        data["feat"] = f"{graph.degree[node]},1"
        data["label"] = data["club"].replace(" ", "_") if node else ""
        data.update({name: bool(chosen(node)) for name, chosen in masks.items()})
    for *_, data in graph.edges(data=True):
        del data["weight"]
    networkx.write_graphml(graph, path)
    return path


def labelled(task: Graphs) -> dict[str, list[int]]:
    return {part: np.flatnonzero(task.load(part)[0].labels >= 0).tolist() for part in PARTS}


def test_graphs_splits_whole_graphs(tmp_path: Path) -> None:
    task = Graphs(write_many(tmp_path / "data"))
    sizes = {part: {len(graph.nodes) for graph in task.load(part)} for part in PARTS}
    assert [len(sizes[part]) for part in PARTS] == [16, 2, 2]
    assert set().union(*sizes.values()) == set(range(3, 23))
    assert task.answer_at == "graph" and task.answers.symbols == ("path", "ring")
    again = Graphs(tmp_path / "data")
    assert [len(graph.nodes) for graph in again.test] == [len(graph.nodes) for graph in task.test]
    with pytest.raises(ValueError, match="has 2 labelled nodes or graphs: too few"):
        Graphs(write_many(tmp_path / "few", 2)).test  # noqa: B018


def test_graphs_splits_nodes_of_one_graph(tmp_path: Path) -> None:
    task = Graphs(write_one(tmp_path / "karate.graphml"))
    split = labelled(task)
    assert [len(split[part]) for part in PARTS] == [27, 3, 3]
    assert sorted(node for nodes in split.values() for node in nodes) == list(range(1, 34))
    assert (task.answer_at, task.num_feats) == ("node", 2)
    assert task.node_kinds.symbols == () and task.answers.symbols == ("Mr._Hi", "Officer")
    assert task.test[0].nodes[0].tolist() == [16, 1]
    assert "27/3/3 nodes for training/validation/test, 1 node without a label" in task.description


def test_graphs_takes_masks_where_there_are_some(tmp_path: Path) -> None:
    masks = {
        "train_mask": lambda node: node < 9,
        "val_mask": lambda node: node == 20,
        "test_mask": lambda node: node > 20,
    }
    split = labelled(Graphs(write_one(tmp_path / "karate.graphml", **masks)))
    assert split == {"train": [*range(1, 9)], "validation": [20], "test": [*range(21, 34)]}
    write_one(tmp_path / "other.graphml")  # without masks, so it is in no part
    assert labelled(Graphs(tmp_path)) == split
    assert [len(Graphs(tmp_path).load(part)) for part in PARTS] == [1, 1, 1]


def test_graphs_are_refused_before_a_run_is_written(
    tmp_path: Path, refusal: Callable[..., str]
) -> None:
    messages: dict[str, str] = {}
    for missing in (names := {"train_mask", "val_mask", "test_mask"}):
        one, other = names - {missing}
        masks = {one: lambda node: node < 9, other: lambda node: node > 20}
        path = write_one(tmp_path / f"{missing}.graphml", **masks)
        messages[str(path)] = f"no labelled node or graph in {missing}: give all of train_mask, val"
    data = write_many(tmp_path / "data")
    last = networkx.read_graphml(data / "19.graphml")
    networkx.set_node_attributes(last, 0.5, "feat")
    networkx.write_graphml(last, data / "19.graphml")
    messages[str(data)] = "19.graphml: a node has 1 number in `feat`; those"
    networkx.set_node_attributes(last, "a", "label")
    networkx.write_graphml(last, alone := tmp_path / "alone.graphml")
    messages[str(alone)] = f"all labels in {alone} are 'a': give two classes or more"
    for name, message in messages.items():
        options = ["--data", name, "--out", tmp_path / "run"]
        assert message in refusal("train", "graphs", *options, *TINY.split())
        assert not (tmp_path / "run").exists()


def test_graphs_without_edges_have_zeros_as_features_of_loops(tmp_path: Path) -> None:
    for index in range(4):
        graph = networkx.path_graph(1 + index % 2, create_using=networkx.DiGraph)
        graph.graph["label"] = f"c{index // 2}"
        networkx.set_edge_attributes(graph, "5, 6", "feat")
        networkx.write_graphml(graph, tmp_path / f"{index}.graphml")
    task = Graphs(tmp_path)
    feats = [graph.edge_feats.tolist() for part in PARTS for graph in task.load(part)]
    assert sorted(feats) == [[[0, 0]], [[0, 0]], *[[[5, 6], [0, 0], [0, 0]]] * 2]
    (tmp_path / "1.graphml").write_text((tmp_path / "1.graphml").read_text().replace("5, 6", ""))
    message = r"1\.graphml: an edge has 0 numbers in `feat`; expected 2"
    with pytest.raises(ValueError, match=message):
        Graphs(tmp_path).load("train")


def test_description_warns_of_edges_in_one_direction(tmp_path: Path) -> None:
    graph = networkx.cycle_graph(20)
    networkx.set_node_attributes(graph, {node: node % 2 for node in graph}, "label")
    networkx.set_node_attributes(graph, 1, "x0")
    networkx.write_graphml(graph, path := tmp_path / "gephi.graphml")
    assert "1 kind of nodes, no `feat`, 2 classes" in Graphs(path).description
    assert Graphs(path).description.endswith("; ignored: x0")
    assert "no edge has its reverse" not in Graphs(path).description
    directed = networkx.DiGraph([*graph.edges])
    directed.add_nodes_from(graph.nodes(data=True))
    networkx.write_graphml(directed, path)
    said = Graphs(path).description
    assert "; hint: no edge has its reverse, so nodes read only the sources" in said
    # A graph without edges says nothing about the others.
    networkx.write_graphml(networkx.DiGraph(directed.subgraph([0])), tmp_path / "single.graphml")
    assert "hint: no edge has its reverse" in Graphs(tmp_path).description


def test_graphs_without_a_label_are_left_out_of_the_split(tmp_path: Path) -> None:
    data = write_many(tmp_path / "data")
    for path in data.iterdir():
        graph = networkx.read_graphml(path)
        graph.graph["label"] = "" if len(graph) < 10 else str(len(graph) % 2)
        networkx.write_graphml(graph, path)
    task = Graphs(data)
    sizes = {part: {len(graph.nodes) for graph in task.load(part)} for part in PARTS}
    assert [len(sizes[part]) for part in PARTS] == [11, 1, 1]
    assert set().union(*sizes.values()) == set(range(10, 23))
