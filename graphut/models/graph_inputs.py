"""Conversion of graphs of DGL, of PyG or of arrays to the input of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphut._dgl import DGLGraph, dgl
from graphut.attention import EdgeLayout
from graphut.attention.layout import layout_from_edges
from graphut.models.checked_config import cut
from graphut.models.graph_columns import (
    EDGE_NAMES,
    MASKS,
    NODE_NAMES,
    GraphInput,
    ParsedGraph,
    check_edges,
    plain_array,
)
from graphut.nn import EventDriven

if TYPE_CHECKING:
    from typing_extensions import Self

    from graphut.models.adaptive_model import AdaptiveModel
    from graphut.models.config import UniversalGraphTransformerConfig


@dataclass(frozen=True)
class JoinedGraphs:
    """The disjoint union of graphs, as tensors for a model."""

    layout: EdgeLayout
    nodes: Tensor  # (N,) kinds, or (N, F) features
    positions: Tensor | None  # (N, k)
    edge_weights: Tensor | None  # (E,)
    edge_feats: Tensor | None  # (E, F)

    @classmethod
    def join(cls, graphs: Sequence[Any], **others: Any) -> Self:
        """Join graphs that have the fields of `GraphInput`; `others` are fields of a subclass."""
        sizes = np.array([len(graph.nodes) for graph in graphs])
        start = sizes.cumsum() - sizes
        shifted = [graph.edges + first for graph, first in zip(graphs, start, strict=True)]
        source, target = torch.from_numpy(np.concatenate(shifted, 1))
        nodes, lengths = int(sizes.sum()), torch.from_numpy(sizes)
        weights = [graph.edge_weights for graph in graphs]
        if any(each is not None for each in weights):
            weights = [
                np.ones(graph.edges.shape[1]) if each is None else each
                for graph, each in zip(graphs, weights, strict=True)
            ]
        both: dict[str, Any] = {"num_src": nodes, "num_dst": nodes}
        both |= {"src_lengths": lengths, "dst_lengths": lengths}
        return cls(
            layout=layout_from_edges(source, target, **both),
            nodes=torch.from_numpy(np.concatenate([graph.nodes for graph in graphs])),
            positions=join_arrays(graph.positions for graph in graphs),
            edge_weights=join_arrays(weights),
            edge_feats=join_arrays(graph.edge_feats for graph in graphs),
            **others,
        )

    @property
    def options(self) -> dict[str, Tensor | None]:
        """A dictionary of the model's keyword arguments: positions, edge weights and features."""
        edges = {"edge_weights": self.edge_weights, "edge_feats": self.edge_feats}
        return {"positions": self.positions, **edges}


def join_arrays(arrays: Iterable[NDArray[Any] | None]) -> Tensor | None:
    """Concatenate the arrays that are not None to a tensor; return None if all are None."""
    present = [rows for rows in arrays if rows is not None]
    return torch.from_numpy(np.concatenate(present)) if present else None


def graph_list(graphs: Any) -> list[Any]:
    """Return the graphs, or pairs of graph and label, in a graph, batch, iterable or dataset."""
    # A dataset of PyG forwards the attributes of a graph, but its class does not have them.
    if isinstance(graphs, str) or any(hasattr(type(graphs), x) for x in ("to_dict", "nodes")):
        items = [graphs]
    elif hasattr(graphs, "__len__") and hasattr(graphs, "__getitem__"):
        items = [graphs[index] for index in range(len(graphs))]  # iter() fails for some of DGL
    else:
        items = list(graphs) if isinstance(graphs, Iterable) else [graphs]
    return [graph for item in items for graph in _unbatched(item)]


def _unbatched(item: Any) -> list[Any]:
    """Return the graphs in a batch of DGL or PyG, or the pairs in a pair of a batch and labels."""
    graph, *labels = item if type(item) in (list, tuple) else (item,)
    if hasattr(graph, "to_data_list"):
        parts = graph.to_data_list()
    elif isinstance(graph, DGLGraph) and graph.batch_size > 1:
        parts = dgl.unbatch(graph)
    else:
        return [(graph, *labels) if labels else graph]
    return [*zip(parts, *labels, strict=True)] if labels else list(parts)


def raw_columns(graph: Any) -> dict[str, Any]:
    """Return the columns of a graph of DGL, PyG or networkx, or of a pair of it and its label.

    They have the names of the `.npy` files that `graphut train graphs` reads. A column of a graph
    of networkx is a list, its `ids` are the nodes, and `ignored` are names of other attributes.
    """
    graph, *label = graph if type(graph) is tuple else (graph,)
    if type(graph).__module__.startswith("networkx"):
        return _networkx_columns(graph)
    if getattr(graph, "edge_index", None) is not None:
        of_node: Mapping[str, Any] = graph.to_dict()
        of_edge = {name: x for name, x in of_node.items() if name.startswith("edge_")}
        edges, count = graph.edge_index, int(graph.num_nodes)  # PyG warns if it guesses
    elif hasattr(graph, "ndata") and graph.is_homogeneous:
        of_node, of_edge = graph.ndata, graph.edata
        # A graph may be restricted to formats that do not know the order of edges.
        edges = torch.stack(graph.formats(["coo", "csr", "csc"]).edges(order="eid"))
        count = graph.num_nodes()
    else:
        raise TypeError(
            "expected a homogeneous DGL graph, a Data of PyG with edge_index, or a graph of "
            f"networkx, as of networkx.read_graphml, got {cut(' '.join(repr(graph).split()), 80)}"
        )
    columns = {"edges": _as_array(edges, "edges"), "graphs": np.zeros(count, np.int64)}
    check_edges(columns["edges"], count, "the graph")
    for names, attributes in ((NODE_NAMES, of_node), (EDGE_NAMES, of_edge)):
        rows = count if names is NODE_NAMES else columns["edges"].shape[1]
        for column, aliases in names.items():
            name = next((name for name in aliases if attributes.get(name) is not None), None)
            if name is None:
                continue
            array = _as_array(attributes[name], name)
            # Labels and masks may be those of a graph.
            if len(array) != rows and column not in ("labels", *MASKS):
                raise ValueError(f"{name} has {len(array)} rows; expected {rows}")
            if array.size or column != "features":
                columns[column] = array
    if label:
        columns.pop("labels", None)
        columns["graph_labels"] = _as_array(label[0], "labels").reshape(1, -1)
    return columns


def _networkx_columns(graph: Any) -> dict[str, Any]:
    """Return the columns of a graph of networkx; an undirected edge becomes two edges."""
    number = {node: index for index, node in enumerate(graph)}
    pairs = [*graph.to_directed().edges(data=True)]
    ends = [(number[source], number[target]) for source, target, _ in pairs]
    of_graph = dict(graph.graph)
    # `read_graphml` keeps default values apart.
    defaults = of_graph.get("node_default", {}), of_graph.get("edge_default", {})
    of_nodes = [defaults[0] | row for _, row in graph.nodes(data=True)]
    of_edges = [defaults[1] | row for *_, row in pairs]
    columns = {
        "ids": [*graph],
        "ignored": sorted({*map(str, chain(*of_nodes))} - {"feat", "label", *MASKS}),
        "edges": np.array(ends, np.int64).reshape(-1, 2).T,
        "graphs": np.zeros(len(number), np.int64),
    }
    for prefix, rows, table in (
        ("", of_nodes, NODE_NAMES),
        ("", of_edges, EDGE_NAMES),
        ("graph_", [of_graph], NODE_NAMES),
    ):
        for column, (name, *_) in table.items():
            if any(name in row for row in rows):
                data: Any = (row.get(name) for row in rows)  # also arrays, tensors, np.float64
                columns[prefix + column] = [x.tolist() if hasattr(x, "tolist") else x for x in data]
    return columns


def _as_array(value: Any, name: str) -> NDArray[Any]:
    """Return a tensor, also a sparse one or one in bfloat16, or other values as an array."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        value = value if value.layout is torch.strided else value.to_dense()
        value = value.float() if value.dtype is torch.bfloat16 else value
    return plain_array(value, name)


def as_input(
    graph: Any, config: UniversalGraphTransformerConfig, kinds: Sequence[str] = ()
) -> GraphInput:
    """Return a graph of DGL, PyG, networkx or arrays as `GraphInput`, with self-loops.

    Its nodes have features, a number of their kind, or the name of one of the `kinds`.
    """
    if isinstance(getattr(graph, "nodes", None), np.ndarray):
        return GraphInput(*(getattr(graph, name) for name in GraphInput._fields))
    parsed = ParsedGraph.of(raw_columns(graph))
    names = kinds if kinds and isinstance(parsed.nodes, list) else config.num_kinds
    return parsed.encoded(names, config.num_feats, config.edge_feats)


@contextmanager
def until_quiescent(model: AdaptiveModel, nodes: int) -> Iterator[None]:
    """Context manager that lets the rule `EventDriven` run until all nodes rest in evaluation.

    Large graphs need more rounds than the small ones in training: if the rule's `max_rounds` is not
    set, it becomes `4 * nodes + 100`. With another rule, nothing changes.
    """
    [recurrence], rule = model._recurrences, model.evaluation_rule
    former = recurrence._evaluation_rule  # None if the rule is derived from the rule in training
    if isinstance(rule, EventDriven) and not rule.max_rounds:
        model.evaluation_rule = replace(rule, max_rounds=4 * nodes + 100)
    try:
        yield
    finally:
        recurrence._evaluation_rule = former
