"""Adapters between graphut's layers and the graph convolutions of DGL and PyG."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph, dgl
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.transforms import outside_autocast
from graphut.nn.checks import first_weight
from graphut.nn.edge_index import layout_for
from graphut.nn.ponder import Ponder


class LayerAsConv(nn.Module):
    """Adapter that lets a layer be called like a convolution of DGL or of PyG.

    DGL's convolutions are called with `(graph, x)`, PyG's with `(x, edge_index)` or
    `(x, edge_index, edge_attr)`. The adapter accepts each of these calls. It returns the output
    without the ponder record, as `dgl.nn.Sequential` and `torch_geometric.nn.Sequential` need it.

    An `edge_index` is sorted at every call. If the edges stay the same, make a layout once with
    `from_edge_index` and pass it in the place of a graph.

    Parameters
    ----------
    layer : Module
        `MultiHeadAttention`, `UniversalTransformerStep`, `AdaptiveRecurrence`, or another module
        that takes a graph and features.

    Attributes
    ----------
    ponder : Ponder or None
        Record of the last call of an `AdaptiveRecurrence`, with its cost. Copies and saved files of
        the module do not contain it.

    Examples
    --------
    >>> from graphut.nn import AdaptiveRecurrence, HaltingUnit, MultiHeadAttention
    >>> from graphut.nn import PositionwiseTransition, UniversalTransformerStep
    >>> from graphut.topology import Complete
    >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
    >>> layer = LayerAsConv(AdaptiveRecurrence(step, HaltingUnit(8)))
    >>> layer(Complete().graph([3]), torch.randn(3, 8)).shape, layer.ponder.steps.shape
    (torch.Size([3, 8]), torch.Size([3]))
    >>> edge_index = torch.tensor([[0, 1, 2, 0], [0, 1, 2, 1]])
    >>> layer(torch.randn(3, 8), edge_index).shape
    torch.Size([3, 8])
    """

    ponder: Ponder | None

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.ponder = None

    def forward(self, *args: Any, **options: Any) -> Any:
        """Call the layer and return its output without the ponder record.

        Parameters
        ----------
        *args
            `graph, x` as in DGL, or `x, edge_index` or `x, edge_index, edge_attr` as in PyG. `x` is
            `(N, F)`, or a pair with the features of sources and of destinations. `edge_attr`,
            `(E, edge_dim)`, is for a layer with `edge_dim`.
        **options
            With an `edge_index`: `batch`, `(N,)`, the graph of a batch to which each node belongs.
            All other options are passed on to the layer, such as `edge_bias=` and
            `get_attention=`.

        Returns
        -------
        Tensor
            The output, or a tuple of the output and the further results that the options ask for.

        Raises
        ------
        TypeError, ValueError
            If `x` and `edge_index` do not fit together, or the layer refuses the call.
        """
        found = self._call(*args, **options)
        if not (isinstance(found, tuple) and isinstance(found[1], Ponder)):
            return found
        out, self.ponder, *others = found
        return (out, *others) if others else out

    def _call(self, *args: Any, **options: Any) -> Any:
        features_first = bool(args) and (
            isinstance(args[0], Tensor)
            or (isinstance(args[0], tuple) and isinstance(args[0][0], Tensor))
        )
        if not (features_first or "edge_index" in options):
            return self.layer(*args, **options)
        layout, x, options = _as_in_pyg(*args, **options)
        return self.layer(layout, x, **options)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the ponder record, which belongs to one call."""
        return {**self.__dict__, "ponder": None}


def _as_in_pyg(
    x: Tensor | tuple[Tensor, Tensor],
    edge_index: Tensor,
    edge_attr: Tensor | None = None,
    *,
    batch: Tensor | None = None,
    **options: Any,
) -> tuple[EdgeLayout, Tensor | tuple[Tensor, Tensor], dict[str, Any]]:
    """Return layout, features and options of a call with the arguments of a PyG convolution."""
    if edge_attr is not None:
        options["edge_feat"] = edge_attr
    return layout_for(x, edge_index, batch), x, options


class OutputOnly(LayerAsConv):
    """Old name of `LayerAsConv`."""

    def __init__(self, layer: nn.Module) -> None:
        warnings.warn("OutputOnly is now LayerAsConv", DeprecationWarning, stacklevel=2)
        super().__init__(layer)


class EdgeIndexLayer(LayerAsConv):
    """Old form of `LayerAsConv` that returns the ponder record too."""

    def __init__(self, layer: nn.Module) -> None:
        warnings.warn(
            "EdgeIndexLayer is now LayerAsConv, which keeps the ponder record as `.ponder`",
            DeprecationWarning,
            stacklevel=2,
        )
        super().__init__(layer)

    def forward(self, *args: Any, **options: Any) -> Any:
        """Call the layer and return all that it returns."""
        return self._call(*args, **options)


class ConvAsAttention(nn.Module):
    """Adapter that lets a convolution of DGL or PyG replace attention in a step.

    With it, a graph network made of such a convolution gives each node its own number of steps.

    The convolution is called for the active nodes only. Its result for a node may therefore depend
    on nothing but the node's features, its in-edges and their sources. This holds for `GATConv`,
    `GINConv` and `SAGEConv`, for example.

    Parameters
    ----------
    conv : Module
        The convolution. A layer of DGL is called with a block and a pair of features, those of
        sources and of destinations; a layer of PyG with such a pair and an `edge_index`. It returns
        `(N_dst, feats)`, or `(N_dst, H, D)` with `feats = H * D`. In-edges are ordered by source,
        which matters for `SAGEConv` with an LSTM only.
    feats : int
        Features of a node.

    Raises
    ------
    ValueError
        If the result for a node would depend on which nodes are active: DGL's `GraphConv` divides
        by the out-degrees of sources by default, and PyG's `GATConv` adds self-loops. Also if a
        layer of PyG does not accept a pair of features, such as `GCNConv`.

    Examples
    --------
    >>> from graphut._dgl import dgl
    >>> from graphut.nn import AdaptiveRecurrence, HaltingUnit, PositionwiseTransition
    >>> from graphut.nn import UniversalTransformerStep
    >>> conv = ConvAsAttention(dgl.nn.GINConv(nn.Linear(8, 8)), 8)
    >>> step = UniversalTransformerStep(conv, PositionwiseTransition(8, 32))
    >>> layer = AdaptiveRecurrence(step, HaltingUnit(8), max_steps=6)
    >>> graph = dgl.add_self_loop(dgl.rand_graph(5, 9))
    >>> layer(graph, torch.randn(5, 8))[0].shape
    torch.Size([5, 8])
    """

    key_value = None  # this layer has no projection
    key_value_flops = 0

    def __init__(self, conv: nn.Module, feats: int) -> None:
        super().__init__()
        pyg_layers = [part for part in conv.modules() if _is_pyg_layer(part)]
        for part in pyg_layers:
            _check_pyg_layer(part)
        if not pyg_layers:
            _check_dgl_layers(conv)
        self.conv = conv
        self._edges_for_conv = _packed_edges if pyg_layers else _block
        self.in_feats, self.out_feats = (feats, feats), feats

    def reset_parameters(self) -> None:
        """Draw new parameters in each part that can do so."""
        for part in reversed([*self.conv.modules()]):  # inner layers first
            if callable(reset := getattr(part, "reset_parameters", None)):
                reset()

    @property
    def node_flops(self) -> int:
        """Floating-point operations for one active node: two for each weight of a matrix."""
        return 2 * sum(p.numel() for p in self.conv.parameters() if p.dim() > 1)

    @property
    def edge_flops(self) -> int:
        """Floating-point operations for one edge: two for each feature."""
        return 2 * self.out_feats

    def project(self, feat_src: Tensor) -> Tensor:
        """Return the features unchanged."""
        return feat_src

    def takes_counts(self, layout: EdgeLayout, like: Tensor) -> bool:
        """Return False: DGL and PyG need the number of rows on the host."""
        return False

    def in_place_key_value(self, layout: EdgeLayout, like: Tensor) -> None:
        """Return None: the convolution receives the features as one tensor."""

    def forward(self, graph: DGLGraph | EdgeLayout, feat: Tensor, **options: Any) -> Tensor:
        """Call the convolution on a graph; the options are those of `attend`."""
        layout, frontier = as_layout(graph), options.get("frontier")
        rows = feat[: layout.num_dst] if frontier is None else feat[frontier]
        return self.attend(layout, rows, feat, **options)[0]

    plain_forward = forward  # for `is_hooked`

    def attend(
        self,
        layout: EdgeLayout,
        rows: Tensor,
        feat_src: Tensor,
        *,
        frontier: Tensor | None = None,
        **others: Any,
    ) -> tuple[Tensor, None]:
        """Call the convolution for the destination rows `(A, feats)` of all or of active nodes.

        Raises
        ------
        ValueError
            If another option is given, such as `edge_bias`: the convolution has no such input.
        """
        asked = [name for name, value in others.items() if value is not None and value is not False]
        if asked:
            raise ValueError(
                f"{type(self.conv).__name__} in the place of attention does not support {asked[0]}"
            )
        make = self._edges_for_conv
        edges, sources = layout.cached(make) if frontier is None else make(layout, frontier)
        feat = feat_src[sources]
        dtype = first_weight(self.conv, feat).dtype
        pair = feat.to(dtype), rows.to(dtype)
        with outside_autocast(feat.device.type):  # kernels of DGL need features of one dtype
            out: Tensor = self.conv(edges, pair) if make is _block else self.conv(pair, edges)
        return out.flatten(1), None


def _is_pyg_layer(layer: nn.Module) -> bool:
    return any(
        kind.__name__ == "MessagePassing" and kind.__module__.startswith("torch_geometric.")
        for kind in type(layer).__mro__
    )


def _check_pyg_layer(layer: nn.Module) -> None:
    name = type(layer).__name__
    feat = inspect.signature(layer.forward).parameters.get("x")
    if feat is not None and feat.annotation is Tensor:
        raise ValueError(
            f"{name} takes one tensor of features, but in a step the destinations are a part of "
            "the sources: use a layer that takes a pair (sources, destinations), such as SAGEConv, "
            "GINConv or GATConv"
        )
    if getattr(layer, "add_self_loops", False):
        raise ValueError(
            f"{name} adds self-loops by node number, but in a step nodes have other numbers: give "
            "it add_self_loops=False, and add them to the graph "
            "(torch_geometric.utils.add_self_loops)"
        )


def _check_dgl_layers(conv: nn.Module) -> None:
    for part in conv.modules():
        if isinstance(part, dgl.nn.GraphConv) and part._norm in ("both", "left"):
            raise ValueError(
                f"GraphConv with norm={part._norm!r} divides by the out-degrees of sources, which "
                "depend on the nodes that are active: give it norm='right' or norm='none'"
            )


def _packed_edges(layout: EdgeLayout, frontier: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the in-edges of all or of active nodes, `(2, E)`, and the ids of their sources.

    The edges refer to positions among these sources and among the active nodes. There is at least
    one source, since gradients of DGL's maximum need one.
    """
    row, source, _ = layout.in_edges(frontier)
    sources, place = source.unique(return_inverse=True)
    if not len(sources):
        sources = sources.new_zeros(min(1, layout.num_src))
    return torch.stack([place, row]), sources


def _block(layout: EdgeLayout, frontier: Tensor | None = None) -> tuple[Any, Tensor]:
    """Return `_packed_edges` as a DGL block, and the ids of its sources."""
    edges, sources = _packed_edges(layout, frontier)
    num_dst = layout.num_dst if frontier is None else len(frontier)
    return dgl.create_block((edges[0], edges[1]), len(sources), num_dst), sources
