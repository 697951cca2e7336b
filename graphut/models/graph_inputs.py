"""Conversion of graphs of DGL, of PyG or of arrays to the input of a model."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphut._dgl import DGLGraph, dgl
from graphut.attention import EdgeLayout
from graphut.attention.layout import layout_from_edges
from graphut.models.checked_config import cut
from graphut.nn import EventDriven

if TYPE_CHECKING:
    from typing_extensions import Self

    from graphut.models.adaptive_model import AdaptiveModel
    from graphut.models.config import UniversalGraphTransformerConfig

# The names of an array in a graph of DGL or PyG, by the name of its `.npy` file. The edges of PyG
# are read from `edge_index`, and those of DGL from `edges()`.
_NAMES = {
    "features": ("feat", "x", "attr"),
    "labels": ("label", "labels", "y"),
    "train_mask": ("train_mask",),
    "val_mask": ("val_mask",),
    "test_mask": ("test_mask",),
}
EDGE_NAMES = {
    "edge_weights": ("weight", "edge_weight", "w"),
    "edge_features": ("feat", "edge_attr"),
    "edge_types": ("type", "edge_type", "etype"),
}

_LARGEST = 1e15  # scores and variances, which are products of two features, are finite in float32


class GraphInput(NamedTuple):
    """The arrays of a graph that a model reads; a `LabelledGraph` also has all these fields."""

    edges: NDArray[np.int64]  # (2, E), sources and destinations
    nodes: NDArray[Any]  # (N,) kinds, or (N, F) features
    positions: NDArray[Any] | None = None  # (N, k)
    edge_weights: NDArray[np.float32] | None = None  # (E,) positive
    edge_feats: NDArray[np.float32] | None = None  # (E, F)
    part: Any = None  # the `graphut.distributed.Part` of this process, if the graph is divided


class EdgeAttributes(NamedTuple):
    """The weights, features and types of the edges of a graph; missing attributes are None."""

    weights: NDArray[np.float32] | None = None  # (E,)
    feats: NDArray[np.float32] | None = None  # (E, F)
    types: list[str | None] | None = None  # (E,)

    @classmethod
    def of(
        cls,
        weights: NDArray[Any] | None,
        feats: NDArray[Any] | None,
        types: Sequence[str | None],
        loops: int,
    ) -> Self:
        """Check the attributes of edges, and append the attributes of `loops` self-loops.

        Self-loops get weight 1, zeros as features, and no type. Weights that are all 1 become None,
        and so do features of no edges, which may have any shape.
        """
        if weights is not None:
            if weights.size != len(weights):
                raise ValueError(
                    f"an edge has the weight {weights[0].tolist()}, but a weight is one number: "
                    "give several numbers as `feat` of the edges"
                )
            weights = np.append(weights.reshape(-1), np.ones(loops)).astype(np.float32)
            fits = np.isfinite(weights) & (weights > 0)
            if not fits.all():
                raise ValueError(
                    f"an edge has the weight {weights[~fits][0]}, but weights are positive: leave "
                    "out edges of weight 0, and give other numbers as `feat` of the edges"
                )
            weights = None if (weights == 1).all() else weights
        feats = None if feats is None or not len(feats) else feats
        if feats is not None:
            feats = np.pad(feature_rows(feats), ((0, loops), (0, 0)))
        known = any(name is not None for name in types)
        return cls(weights, feats, [*types, *[None] * loops] if known else None)

    @property
    def num_feats(self) -> int:
        """The number of features of an edge, not counting its type."""
        return 0 if self.feats is None else self.feats.shape[1]

    def encoded(
        self, types: Sequence[str], edge_feats: int, edges: NDArray[np.int64]
    ) -> NDArray[np.float32] | None:
        """Return the features and the one-hot types of the `(2, E)` edges, `(E, edge_feats)`.

        `types` are the types that a model knows; `edge_feats` is its number of features of an edge,
        including one per type. Return None if `edge_feats` is 0. A graph that has only self-loops
        may lack features; they are zeros. Raise `ValueError` if other features or types do not fit
        the model.
        """
        own = edge_feats - len(types)
        may_lack = self.feats is None and bool((edges[0] == edges[1]).all())
        if self.num_feats != own and not may_lack:
            raise ValueError(f"an edge has {self.num_feats} numbers in `feat`; expected {own}")
        if unknown := {*(self.types or ())} - {None, *types}:
            known = "the model knows no types of edges"
            if types:
                known = f"known types are {', '.join(types)}"
            raise ValueError(f"an edge has the type {unknown.pop()!r}; {known}")
        if not edge_feats:
            return None
        found = np.zeros((edges.shape[1], edge_feats), np.float32)
        found[:, :own] = 0 if self.feats is None else self.feats
        if self.types is not None:
            found[:, own:] = np.array(self.types, object)[:, None] == np.array(types, object)
        return found


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
                np.ones(graph.edges.shape[1], np.float32) if each is None else each
                for graph, each in zip(graphs, weights, strict=True)
            ]
        if (part := graphs[0].part) is not None:
            layout = part.layout
        else:
            both: dict[str, Any] = {"num_src": nodes, "num_dst": nodes}
            both |= {"src_lengths": lengths, "dst_lengths": lengths}
            layout = layout_from_edges(source, target, **both)
        return cls(
            layout=layout,
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
    found = [rows for rows in arrays if rows is not None]
    return torch.from_numpy(np.concatenate(found)) if found else None


def graph_list(graphs: Any) -> list[Any]:
    """Return a list of graphs, given one graph, an iterable of graphs, or a DGL or PyG dataset.

    Batches of DGL and PyG are split into their graphs. Items may be pairs of a graph and its label.
    """
    # A dataset of PyG forwards the attributes of a graph, but its class does not have them.
    if any(hasattr(type(graphs), name) for name in ("to_dict", "nodes")):
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


def raw_arrays(graph: Any) -> dict[str, NDArray[Any]]:
    """Return a dictionary of arrays, given a graph of DGL or PyG, or a pair of it and its label.

    The keys are the names of the `.npy` files that `graphut train graphs` reads: "edges", "graphs"
    (zeros, the graph of each node) and, if the graph has them, "features", "labels", masks and
    attributes of edges. Raise `TypeError` for other objects and for heterogeneous graphs.
    """
    graph, *label = graph if type(graph) is tuple else (graph,)
    if getattr(graph, "edge_index", None) is not None:
        of_node: Mapping[str, Any] = graph.to_dict()
        of_edge = {name: x for name, x in of_node.items() if name.startswith("edge_")}
        edges = graph.edge_index
        count = graph.num_nodes
    elif hasattr(graph, "ndata") and graph.is_homogeneous:
        of_node, of_edge = graph.ndata, graph.edata
        edges, count = torch.stack(graph.edges(order="eid")), graph.num_nodes()
    else:
        from_networkx = type(graph).__module__.startswith("networkx")
        raise TypeError(
            "expected a homogeneous DGL graph or a Data of PyG with edge_index, got "
            + cut(" ".join(repr(graph).split()), 80)
            + ": call dgl.from_networkx, or networkx.write_graphml" * from_networkx
        )
    found = {"edges": edges}
    for names, source in ((_NAMES, of_node), (EDGE_NAMES, of_edge)):
        for name, known in names.items():
            given = [source[own] for own in known if source.get(own) is not None]
            if given:
                found[name] = given[0]
    if label:
        found["labels"] = label[0]
    arrays = {
        name: np.atleast_1d(value.detach().cpu() if isinstance(value, Tensor) else value)
        for name, value in found.items()
    }
    if label:
        arrays["labels"] = arrays["labels"].reshape(1, -1)
    for name, (_, own, *_) in EDGE_NAMES.items():  # of PyG, as DGL checks its graphs
        if name in arrays and (rows := len(arrays[name])) != edges.shape[1]:
            raise ValueError(f"{own} has {rows} rows; expected {edges.shape[1]}, one per edge")
    return {"graphs": np.zeros(count, np.int64), **arrays}


def with_loops(edges: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the `(2, E)` edges followed by a self-loop of each of `count` nodes that has none."""
    looped = edges[0, edges[0] == edges[1]]
    missing = np.setdiff1d(np.arange(count), looped)
    return np.concatenate([edges, np.stack([missing, missing])], 1)


def feature_rows(
    features: NDArray[Any], ids: Sequence[Hashable] | None = None
) -> NDArray[np.float32]:
    """Return the features of nodes (or of edges, if `ids` is None) as a float32 matrix.

    Raise `ValueError`, which quotes the value and the node's id, if a value is NaN or too large.
    """
    features = features.reshape(len(features), prod(features.shape[1:]))
    if (wrong := ~(np.abs(features) <= _LARGEST)).any():  # also True for NaN
        row, column = np.argwhere(wrong)[0]
        owner = "an edge" if ids is None else f"node {ids[row]!r}"
        raise ValueError(
            f"{owner} has [{features[row, column]}] in `feat`; expected finite numbers from "
            f"-{_LARGEST:g} to {_LARGEST:g}"
        )
    return features.astype(np.float32)


def as_input(graph: Any, config: UniversalGraphTransformerConfig) -> GraphInput:
    """Return a graph of DGL, PyG or arrays as `GraphInput`, for a model with this configuration.

    Nodes without a self-loop get one, as in training. Raise `ValueError` if the features do not
    fit the configuration.
    """
    if isinstance(getattr(graph, "nodes", None), np.ndarray):
        return GraphInput(*(getattr(graph, name) for name in GraphInput._fields))
    arrays, num_feats, num_kinds = raw_arrays(graph), config.num_feats, config.num_kinds
    count = len(arrays["graphs"])
    nodes = arrays.get("features")
    if num_feats:
        nodes = feature_rows(np.zeros((count, 0)) if nodes is None else nodes, range(count))
        if nodes.shape[1] != num_feats:
            raise ValueError(
                f"a node has {nodes.shape[1]} features; the model needs {num_feats}: set "
                "ndata['feat'] of DGL, or x of PyG"
            )
    elif nodes is None and num_kinds == 1:
        nodes = np.zeros(count, np.int64)
    elif nodes is None or nodes.dtype != np.int64 or nodes.shape != (count,):
        raise ValueError(
            f"the model has {num_kinds} kinds of nodes: set ndata['feat'] of DGL, or x of PyG, to "
            f"(N,) int64 kinds from 0 to {num_kinds - 1}"
        )
    edges = with_loops(arrays["edges"], count)
    loops = edges.shape[1] - arrays["edges"].shape[1]
    types = arrays["edge_types"].astype(str).tolist() if "edge_types" in arrays else []
    weights, feats = arrays.get("edge_weights"), arrays.get("edge_features")
    of_edges = EdgeAttributes.of(weights, feats, types, loops)
    encoded = of_edges.encoded(config.edge_types.split(), config.edge_feats, edges)
    return GraphInput(edges, nodes, None, of_edges.weights, encoded)


def warn_of_missing(graphs: Sequence[GraphInput], config: UniversalGraphTransformerConfig) -> None:
    """Warn if edges had types or weights in training, but no edge of the graphs has one."""
    types = config.edge_types.split()
    feats = [graph.edge_feats for graph in graphs if graph.edge_feats is not None]
    if types and feats and not any(rows[:, -len(types) :].any() for rows in feats):
        warnings.warn(
            f"no edge has a type, but the model was trained with the types {', '.join(types)}: "
            "name them in `type` of the edges, or in edge_type of PyG",
            stacklevel=4,
        )
    if config.edge_weights and graphs and all(graph.edge_weights is None for graph in graphs):
        warnings.warn(
            "no edge has a weight other than 1, but the model was trained with edge weights: give "
            "them as `weight` of the edges, or as edge_weight of PyG",
            stacklevel=4,
        )


def num_nodes(graph: Any) -> int:
    """Return the number of nodes of a graph; for a part of a divided graph, of the whole graph."""
    count: int = len(graph.nodes) if graph.part is None else graph.part.num_nodes
    return count


def in_groups(graphs: Sequence[GraphInput], nodes: int = 20_000) -> Iterator[list[GraphInput]]:
    """Yield lists of consecutive graphs with at most `nodes` nodes in all, or one larger graph."""
    group: list[GraphInput] = []
    total = 0
    for graph in graphs:
        total += len(graph.nodes)
        if group and total > nodes:
            yield group
            group, total = [], len(graph.nodes)
        group.append(graph)
    if group:
        yield group


@contextmanager
def until_quiescent(model: AdaptiveModel, nodes: int) -> Iterator[None]:
    """Context manager that lets a model with the rule `EventDriven` run longer in evaluation.

    This rule updates nodes in rounds until no node changes; large graphs need more rounds than the
    small graphs in training. The limit `max_rounds` of the rule becomes `4 * nodes + 100` if it is
    not set. With another rule, nothing changes.
    """
    rule = model.evaluation_rule
    if not isinstance(rule, EventDriven) or rule.max_rounds:
        yield
        return
    before = [(each, each._evaluation_rule) for each in model._recurrences]
    model.evaluation_rule = replace(rule, max_rounds=4 * nodes + 100)
    try:
        yield
    finally:
        for recurrence, own in before:  # None if the rule is derived from the rule in training
            recurrence._evaluation_rule = own
