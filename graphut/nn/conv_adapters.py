"""Adapters between graphut's layers and the graph convolutions of DGL and PyG."""

import inspect
from copy import copy
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from graphut._dgl import dgl
from graphut.attention import EdgeLayout, layout_from_edges
from graphut.attention.checks import check_finite, first_weight
from graphut.attention.tracing import outside_autocast
from graphut.nn.aggregation import Aggregation, edge_list, neighbor_mean, neighbor_sum
from graphut.nn.graph_call import GraphCall, check_rows
from graphut.nn.layers import is_hooked
from graphut.nn.ponder import Ponder
from graphut.nn.recurrence import AdaptiveRecurrence

# Convolutions of PyG and DGL that are recurrences themselves.
_PROPAGATIONS = ("APPNP", "APPNPConv", "SGConv")
# Convolutions of PyG whose messages are the features of the sources.
_SUMS = ("SAGEConv", "GINConv", "GraphConv")


class LayerAsConv(GraphCall):
    """Adapter that lets a layer be called like a convolution of DGL or PyG.

    It accepts the arguments of DGL, `(graph, x)`, and of PyG, `(x, edge_index)` or
    `(x, edge_index, edge_attr)`. It returns the output without the record of steps (`Ponder`), as
    `dgl.nn.Sequential` and `torch_geometric.nn.Sequential` need it.

    After a call of an `AdaptiveRecurrence`, the attribute `ponder` is the record of the call. The
    record is not copied or saved with the module.

    Examples
    --------
    >>> from graphut.nn import MultiHeadAttention
    >>> edge_index = torch.tensor([[0, 1, 2, 0], [0, 1, 2, 1]])
    >>> LayerAsConv(MultiHeadAttention(8, 2))(torch.randn(3, 8), edge_index).shape
    torch.Size([3, 8])
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(
        self, x: Any, edge_index: Any, edge_attr: Tensor | None = None, **options: Any
    ) -> Any:
        """Call the layer, and return its output without the record of steps (`Ponder`).

        Arguments are `x, edge_index` of PyG, or `graph, x` of DGL; `x` is `(N, F)`, or a pair with
        the features of sources and destinations, and `edge_attr` is `(E, edge_dim)`. Options, such
        as `get_attention`, are passed to the layer.
        """
        graph, feat = x, edge_index
        if isinstance(x, (Tensor, tuple)):
            sides = x if isinstance(x, tuple) else (x,)
            for each in sides:
                check_rows("x", each)
            nodes: Any = tuple(map(len, sides)) if isinstance(x, tuple) else len(x)
            graph, feat = self.layout_of(edge_index, nodes), x
        if edge_attr is not None:
            options["edge_feat"] = edge_attr
        result = self.layer(graph, feat, **options)
        if not (isinstance(result, tuple) and isinstance(result[1], Ponder)):
            return result
        out, self.ponder, *others = result
        return (out, *others) if others else out


class ConvAsAttention(Aggregation):
    """Adapter that lets a convolution of DGL or PyG replace attention in a step.

    In a recurrence, each node then takes its own number of steps with the convolution. The
    convolution is called for the active nodes only. So its result for a node must depend only on
    the features of the node, its in-edges and their sources, as with `GATConv`, `GINConv` and
    `SAGEConv`. `GCNConv` of PyG and `GraphConv` of DGL divide by degrees, which are taken from the
    whole graph, with the self-loops that `GCNConv` adds. `BatchNorm` in the convolution depends on
    all active nodes in training: `AdaptiveRecurrence` accepts it with `FixedDepth` or
    `halted="running"` only; use `LayerNorm`.

    Parameters
    ----------
    conv : Module
        The convolution. A layer of DGL is called with a block and a pair of features, of sources
        and of destinations; a layer of PyG with such a pair and an `edge_index`. It must return
        `(N_dst, feats)`, or `(N_dst, H, D)` with `feats = H * D`. In-edges are ordered by source,
        which matters only for `SAGEConv` with an LSTM.
    feats : int
        Features of a node, in the input and in the output.

    Raises
    ------
    TypeError
        If `conv` is no module, contains a recurrence, as `AdaptiveConv` does, or can replace
        attention itself, such as `NeighborMean`.
    ValueError
        If the result for a node would depend on other active nodes, as with PyG's `GATConv`, which
        adds self-loops, or with a `GraphConv` inside another module; or if a layer of PyG does not
        accept a pair of features, such as `ChebConv`; or if it repeats a propagation without
        weights, such as `APPNP` (use `AdaptivePropagation`); or, in a call, if the convolution does
        not return `feats` features, or if `GCNConv` or `GraphConv` gets a block, in which degrees
        are not those of the graph.

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

    def __init__(self, conv: nn.Module, feats: int) -> None:
        super().__init__()
        parts = conv.modules() if isinstance(conv, nn.Module) else ()
        is_one_step = parts and not any(isinstance(part, AdaptiveRecurrence) for part in parts)
        if not is_one_step or isinstance(conv, Aggregation):
            raise TypeError(
                "conv must be a convolution of DGL or PyG with one step, such as GINConv(linear) "
                f"(an instance, not the class), got {conv!r:.80}"
            )
        for part in conv.modules():
            if type(part).__name__ == "DirGNNConv":
                raise ValueError("DirGNNConv reads out-edges too: give its own convolution instead")
            if type(part).__name__ in _PROPAGATIONS:
                raise ValueError(
                    f"{type(part).__name__} repeats a propagation without weights: use "
                    "graphut.nn.AdaptivePropagation, in which each node has its own number of steps"
                )
        pyg_layers = _pyg_layers(conv)
        width = getattr(conv, "in_channels", -1) if conv in pyg_layers else -1
        if isinstance(width, int) and width not in (-1, feats):
            raise ValueError(
                f"{type(conv).__name__} reads {width} features, but a state has {feats}: construct "
                f"it with in_channels={feats}"
            )
        is_normed = type(conv) is dgl.nn.GraphConv or (
            conv in pyg_layers and _is_of_pyg(conv, "GCNConv") and conv.aggr == "add"
        )
        for part in pyg_layers:
            _check_pyg_layer(part, divides_by_degrees=is_normed)
            part.explain = False  # a step reorders edges, which a mask of an Explainer does not
        for part in () if pyg_layers or is_normed else conv.modules():
            if isinstance(part, dgl.nn.GraphConv) and part._norm in ("both", "left"):
                raise ValueError(
                    f"GraphConv with norm={part._norm!r} divides by the out-degrees of sources, "
                    "which depend on the active nodes: give it norm='right' or norm='none'"
                )
        self.conv = conv
        self._is_pyg, self._divides_by_degrees = bool(pyg_layers), is_normed
        self.in_feats, self.out_feats, self.edge_flops = (feats, feats), feats, 2 * feats

    def reset_parameters(self) -> None:
        """Draw new parameters in each part that has `reset_parameters`."""
        for part in reversed([*self.conv.modules()]):  # inner layers first
            if callable(reset := getattr(part, "reset_parameters", None)):
                reset()

    @property
    def node_flops(self) -> int:
        return 2 * sum(p.numel() for p in self.conv.parameters() if p.dim() > 1)

    def project(self, feat_src: Tensor, *types: Any) -> Tensor:
        """Return the rows that sources store: features, which `GCNConv` and `GraphConv` map."""
        conv: Any = self.conv
        feat = feat_src.to(first_weight(conv, feat_src).dtype)
        if not self._divides_by_degrees:
            return feat
        if isinstance(conv, dgl.nn.GraphConv):
            return feat if conv.weight is None else feat @ conv.weight
        mapped: Tensor = conv.lin(feat)
        return mapped

    def attend(
        self,
        layout: EdgeLayout,
        rows: Tensor,
        stored: Tensor,
        *,
        frontier: Tensor | None = None,
        edge_weight: Tensor | None = None,
        **others: Any,
    ) -> tuple[Tensor, None]:
        """Return the convolution's output, `(A, feats)`, and None instead of attention weights.

        `rows`, `(A, feats)`, are the features of the destinations, and `frontier`, `(A,)`, their
        ids; None means all destinations. `GCNConv` of PyG and `GraphConv` of DGL read
        `edge_weight`, `(E,)`, as in their own calls. Other options, such as `edge_bias`, raise
        `ValueError`.
        """
        conv: Any = self.conv
        if not self._divides_by_degrees:
            others["edge_weight"] = edge_weight
        self.refuse(type(conv).__name__, others)
        if self._divides_by_degrees and is_hooked(conv):
            raise ValueError(f"hooks of {type(conv).__name__} do not run in a step: remove them")
        check_finite(feat=stored)
        check_edge_weight(layout, edge_weight)
        with outside_autocast(stored.device.type):  # kernels of DGL need features of one dtype
            if self._divides_by_degrees:
                out = self._sum_by_degrees(layout, stored, frontier, edge_weight)
            elif _is_sum(conv):
                out = _call_with_sums(conv, layout, stored, rows.to(stored.dtype), frontier)
            else:
                make = _packed_edges if self._is_pyg else _block
                edges, sources = layout.cached(make) if frontier is None else make(layout, frontier)
                pair = stored[sources], rows.to(stored.dtype)
                out = conv(pair, edges) if self._is_pyg else conv(edges, pair)
        out = out.flatten(1)
        if out.shape[1] != self.out_feats:
            raise ValueError(
                f"{type(conv).__name__} returned {out.shape[1]} features for each node, those of "
                f"all heads; a state has {self.out_feats}"
            )
        return out, None

    def _sum_by_degrees(
        self, layout: EdgeLayout, mapped: Tensor, frontier: Tensor | None, weight: Tensor | None
    ) -> Tensor:
        """Return the output of a `GCNConv` or `GraphConv`, given the mapped features of sources."""
        conv: Any = self.conv
        if layout.num_src != layout.num_dst:
            raise ValueError(
                f"{type(conv).__name__} needs degrees, which a block does not know: give a graph"
            )
        make: Any = _gcn_edges
        settings: tuple[Any, ...] = ()
        if isinstance(conv, dgl.nn.GraphConv):
            make, settings = _graph_conv_edges, (conv._norm,)
        else:
            settings = (conv.improved, conv.add_self_loops, conv.normalize)
        cached = layout.cached(make, *settings) if weight is None else None
        layout, weight = make(layout, *settings, weight) if cached is None else cached
        out = neighbor_sum(layout, mapped, weight, frontier).to(mapped.dtype)
        out = out if conv.bias is None else out + conv.bias
        activation = getattr(conv, "_activation", None)
        return out if activation is None else activation(out)


def check_edge_weight(layout: EdgeLayout, weight: Tensor | None) -> None:
    """Raise an error unless `weight` is None or `(E,)` finite numbers."""
    if weight is None:
        return
    check_finite(edge_weight=weight)
    if weight.shape != (layout.num_edges,):
        raise ValueError(
            f"edge_weight must be ({layout.num_edges},), one per edge; got {tuple(weight.shape)}"
        )


def _pyg_layers(conv: nn.Module) -> list[Any]:
    """Return all submodules that are layers of PyG, without an import of PyG."""

    def is_pyg_layer(kind: type) -> bool:
        return kind.__name__ == "MessagePassing" and kind.__module__.startswith("torch_geometric.")

    return [part for part in conv.modules() if any(map(is_pyg_layer, type(part).__mro__))]


def _check_pyg_layer(layer: nn.Module, *, divides_by_degrees: bool) -> None:
    name = type(layer).__name__
    if layer.flow != "source_to_target":
        raise ValueError(f"{name} with flow={layer.flow!r}: leave flow out, and flip the edges")
    if divides_by_degrees:
        return
    feat = inspect.signature(layer.forward).parameters.get("x")
    if feat is not None and feat.annotation is Tensor:
        raise ValueError(
            f"{name} takes one tensor of features, but a step needs a layer that takes a pair "
            "(sources, destinations), such as SAGEConv, GINConv or GATConv"
        )
    if getattr(layer, "add_self_loops", False):
        raise ValueError(
            f"{name} adds self-loops by node number, but a step renumbers nodes: give it "
            "add_self_loops=False, and add_self_loops=True to AdaptiveConv"
        )
    if getattr(layer, "edge_dim", None) is not None:
        raise ValueError(
            f"{name} with edge_dim={layer.edge_dim} reads features of edges, which a step does not "
            "pass to it; AdaptiveConv(..., heads=4, edge_dim=3) reads them, without conv"
        )


def _is_of_pyg(conv: nn.Module, *names: str) -> bool:
    kind = type(conv)
    return kind.__name__ in names and kind.__module__.startswith("torch_geometric.")


def _is_sum(conv: Any) -> bool:
    """Return whether a layer of PyG, without hooks, adds or averages the sources' features."""
    is_known = _is_of_pyg(conv, *_SUMS) and conv.fuse and not has_message_hooks(conv)
    return is_known and conv.aggr in ("mean", "sum", "add")


def has_message_hooks(layer: nn.Module) -> bool:
    """Return whether a layer of PyG has hooks on its messages or on their sums."""
    names = product(("propagate", "message", "aggregate"), ("", "pre_"))
    return any(vars(layer)[f"_{part}_forward_{kind}hooks"] for part, kind in names)


def _call_with_sums(
    conv: Any, layout: EdgeLayout, stored: Tensor, rows: Tensor, frontier: Tensor | None
) -> Tensor:
    """Call a layer of PyG with one sparse product instead of its messages."""
    conv, reduce = copy(conv), neighbor_mean if conv.aggr == "mean" else neighbor_sum

    def propagate(_: Any, *, x: tuple[Tensor, Any], **options: Any) -> Tensor:
        return reduce(layout, x[0], frontier=frontier).to(x[0].dtype)

    conv.propagate = propagate
    result: Tensor = conv((stored, rows), torch.empty(2, 0, dtype=torch.int64))
    return result


def _graph_conv_edges(
    layout: EdgeLayout, norm: str, weight: Tensor | None = None
) -> tuple[EdgeLayout, Tensor]:
    """Return a graph, and the weights in canonical order by which `GraphConv` of DGL sums."""
    row, source, edge = layout.in_edges()
    out_degrees = torch.bincount(source, minlength=layout.num_src).double()
    powers = {"both": (-0.5, -0.5), "left": (-1, 0), "right": (0, -1), "none": (0, 0)}[norm]
    scale = out_degrees[source] ** powers[0] * layout.in_degrees.double()[row] ** powers[1]
    return layout, scale if weight is None else scale * weight[edge]


def _gcn_edges(
    layout: EdgeLayout,
    improved: bool,
    add_self_loops: bool,
    normalize: bool,
    weight: Tensor | None = None,
) -> tuple[EdgeLayout, Tensor]:
    """Return the graph, and its weights in canonical order, that PyG's `GCNConv` makes of one."""
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    ends = torch.stack(edge_list(layout))
    if normalize:
        settings = (improved, add_self_loops)
        wide = None if weight is None else weight.double()
        ends, weight = gcn_norm(ends, wide, layout.num_dst, *settings, dtype=torch.double)
    elif weight is None:
        weight = torch.ones(layout.num_edges, dtype=torch.double, device=layout.device)
    layout = layout_from_edges(*ends, num_src=layout.num_src, num_dst=layout.num_dst)
    return layout, weight[layout.in_edges()[2]]


def _packed_edges(layout: EdgeLayout, frontier: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the in-edges, `(2, E)`, of the nodes `frontier`, and the ids of their sources.

    The first row of the edges has indices into these ids, and the second row has indices into
    `frontier` (None: all nodes).
    """
    row, source, _ = layout.in_edges(frontier)
    sources, place = source.unique(return_inverse=True)
    if not len(sources):  # the gradient of DGL's maximum needs a source
        sources = sources.new_zeros(min(1, layout.num_src))
    return torch.stack([place, row]), sources


def _block(layout: EdgeLayout, frontier: Tensor | None = None) -> tuple[Any, Tensor]:
    """Return the in-edges of the nodes `frontier` as a DGL block, and the block's source ids."""
    edges, sources = _packed_edges(layout, frontier)
    num_dst = layout.num_dst if frontier is None else len(frontier)
    return dgl.create_block((edges[0], edges[1]), len(sources), num_dst), sources
