"""Checks of the graphs and node features that a layer is called with."""

from typing import Any

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout
from graphut.attention.argument_checks import check_frontier
from graphut.attention.tensor_checks import check_tensor
from graphut.attention.tracing import is_tracing

PASS_A_PAIR = "pass a pair of features: (source, destination features)"


def check_feat(feat: Tensor, side: str, nodes: int, width: int, layer: nn.Module) -> None:
    """Raise an error unless `feat` is `(nodes, width)`, in the dtype and on the device of `layer`.

    `side`, "source" or "destination", appears in the message.
    """
    check_tensor(feat, f"features of {side} nodes")
    weight = first_weight(layer, feat)
    if feat.shape != (nodes, width):
        raise ValueError(
            f"the graph has {nodes} {side} nodes, but their features have shape "
            f"{tuple(feat.shape)}; pass one row of {width} features for each node"
        )
    if feat.device != weight.device:
        raise ValueError(
            f"features of {side} nodes are on {feat.device}, but the layer is on {weight.device}; "
            "move one of them with .to(device)"
        )
    # Under autocast, linear maps cast their input.
    fits = feat.dtype == weight.dtype or torch.is_autocast_enabled(feat.device.type)
    if not (feat.is_floating_point() and fits):
        raise TypeError(
            f"features of {side} nodes are {feat.dtype}, but the layer is {weight.dtype}; "
            "convert one of them with .to(dtype)"
        )


def destination_rows(layout: EdgeLayout, feat: Tensor, frontier: Tensor | None) -> Tensor:
    """Return the features of all destinations, the first sources, or of those in `frontier`."""
    if frontier is None:
        return feat[: layout.num_dst]
    check_frontier(layout, frontier)
    return feat[frontier]


def first_weight(layer: nn.Module, otherwise: Tensor) -> Tensor:
    """Return the first floating-point parameter of the layer, or `otherwise` if it has none."""
    parameters, name = first_parameter(layer)
    return parameters.get(name, otherwise)


def first_parameter(layer: nn.Module) -> tuple[dict[str, Any], str]:
    """Return the dictionary and the name under which the first floating-point parameter is kept."""
    for module in layer.modules():
        for name, weight in module._parameters.items():
            if weight is not None and weight.is_floating_point():
                return module._parameters, name
    return {}, ""


def check_same_nodes(
    graph: DGLGraph | EdgeLayout,
    advice: str = "a step needs a graph with one node type, or a block; HeteroAdaptiveConv is a "
    "recurrence over several node types; MultiHeadAttention and MessageAggregation, without a "
    "step, connect two types",
) -> None:
    """Raise an error, with `advice`, if the edges connect two different types of nodes."""
    if not isinstance(graph, DGLGraph) or len(graph.etypes) != 1:
        return  # `as_layout` refuses a graph with several edge types
    source, _, target = graph.canonical_etypes[0]
    if source != target:
        raise ValueError(f"the graph's edges go from {source!r} to {target!r} nodes; {advice}")


def sources_of(feat: Tensor | tuple[Tensor, Tensor]) -> Tensor:
    """Return the source features of a tensor, or of a pair as `dgl.nn.HeteroGraphConv` passes it.

    Raise an error unless the destinations of the pair are its first sources.
    """
    if not isinstance(feat, tuple):
        check_tensor(feat, "features of source nodes")
        return feat
    sources, destinations = feat
    if not (is_tracing() or torch.equal(sources[: len(destinations)], destinations)):
        raise ValueError(
            f"got features of {len(sources)} sources and of {len(destinations)} other "
            "destinations, but the destinations of a step must be the first sources: for several "
            "node types use HeteroAdaptiveConv, or, without a step, MultiHeadAttention or "
            "MessageAggregation"
        )
    return sources
