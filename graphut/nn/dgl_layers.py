"""For code on DGL: a layer in the place of `GATConv`, and layers of DGL in a recurrence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph, dgl
from graphut.attention import EdgeLayout, as_layout, edge_attention
from graphut.attention.backends import check_backend
from graphut.attention.transforms import outside_autocast
from graphut.nn.checks import first_weight
from graphut.nn.ponder import Ponder


class DotGATConv(nn.Module):
    r"""Dot-product attention that is made and called as `dgl.nn.GATConv`.

    .. math::
        h_i^{(l+1)} = \sum_{j \in E(i)} a_{ij} W h_j, \qquad
        a_{ij} = \mathrm{softmax}_{j \in E(i)} \frac{W h_i \cdot W h_j}{\sqrt{d}}

    for each head, as in `dgl.nn.DotGatConv`, whose parameters it can load; with the residual, bias,
    activation, dropout and edge weights of `dgl.nn.GATConv`.

    Parameters
    ----------
    in_feats : int or pair of int
        Features of a node; of sources and of destinations, which then have maps of their own.
    out_feats : int
        Features of a head, `D`.
    num_heads : int
        Number of heads, `H`.
    feat_drop, attn_drop : float
        Probabilities that a feature and an attention weight are dropped in training.
    negative_slope : float
        Not used, since dot products have no LeakyReLU; other arguments have `GATConv`'s places.
    residual : bool
        Add the destination's features, mapped where they are not `H * D` wide.
    activation : callable, optional
        Applied to the result.
    allow_zero_in_degree : bool
        Let a node without in-edges attend to nothing, in place of an error.
    bias : bool
        Add a learned bias.
    share_projection : bool
        Make key and value by one map; it makes the query too where `in_feats` is one number. If
        not, query, key and value have maps of their own, as in `MultiHeadAttention`.
    backend : str
        See `graphut.attention.edge_attention`.

    Examples
    --------
    >>> from graphut.topology import Complete
    >>> layer = DotGATConv(8, 5, num_heads=2, residual=True)
    >>> layer(Complete().graph([3]), torch.randn(3, 8)).shape
    torch.Size([3, 2, 5])
    """

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        num_heads: int,
        feat_drop: float = 0.0,
        attn_drop: float = 0.0,
        negative_slope: float = 0.2,
        residual: bool = False,
        activation: Callable[[Tensor], Tensor] | None = None,
        allow_zero_in_degree: bool = False,
        bias: bool = True,
        *,
        share_projection: bool = True,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        check_backend(backend)
        src_feats, dst_feats = in_feats if isinstance(in_feats, tuple) else (in_feats, in_feats)
        width = num_heads * out_feats
        if share_projection and not isinstance(in_feats, tuple):
            self.fc = nn.Linear(src_feats, width, bias=False)
        else:
            self.fc_src = nn.Linear(src_feats, width * (2 - share_projection), bias=False)
            self.fc_dst = nn.Linear(dst_feats, width, bias=False)
        self.feat_drop = nn.Dropout(feat_drop)
        self.attn_drop = attn_drop
        self.res_fc: nn.Module | None = None
        if residual and dst_feats == width:
            self.res_fc = nn.Identity()
        elif residual:
            self.res_fc = nn.Linear(dst_feats, width, bias=False)
        self.bias = nn.Parameter(torch.empty(width)) if bias else None
        self.by_head = (num_heads, out_feats)
        self.share_projection = share_projection
        self.activation = activation
        self.allow_zero_in_degree = allow_zero_in_degree
        self.backend = backend
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew: Xavier uniform for each map, a bias of zero."""
        for name, weight in self.named_parameters():
            if name == "bias":
                nn.init.zeros_(weight)
                continue
            for part in weight.chunk(1 if name != "fc_src.weight" or self.share_projection else 2):
                nn.init.xavier_uniform_(part)

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Set whether a node may be without in-edges."""
        self.allow_zero_in_degree = set_value

    def forward(
        self,
        graph: DGLGraph | EdgeLayout,
        feat: Tensor | tuple[Tensor, Tensor],
        edge_weight: Tensor | None = None,
        get_attention: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend over the edges of a graph.

        Parameters
        ----------
        graph : DGLGraph or EdgeLayout
            Homogeneous, bipartite, or a block.
        feat : Tensor or pair of Tensor
            `(N, *, in_feats)`, of sources and destinations if a pair. One tensor for a block is
            its sources', of which the first are its destinations.
        edge_weight : Tensor, optional
            `(E,)`, factors of the attention weights after the softmax.
        get_attention : bool
            Also return the attention weights.

        Returns
        -------
        Tensor
            `(N_dst, *, H, D)`
        Tensor
            With `get_attention`: `(E, *, H, 1)`.

        Raises
        ------
        TypeError, ValueError
            If features do not fit the graph or the layer, or a node has no in-edge.
        """
        layout = as_layout(graph)
        feat_src, feat_dst = feat if isinstance(feat, tuple) else (feat, None)
        feat_src = self.feat_drop(feat_src)
        # A block's destinations are its first sources; elsewhere the two are the same nodes.
        of_sources = feat_dst is None
        feat_dst = feat_src[: layout.num_dst] if feat_dst is None else self.feat_drop(feat_dst)
        of_source, of_target = (self.fc,) * 2 if hasattr(self, "fc") else (self.fc_src, self.fc_dst)
        parts = self._heads(of_source(feat_src))
        key, value = parts[0], parts[-1]  # one part if they share the map
        if of_sources and of_source is of_target:
            query = key[: layout.num_dst]
        else:
            query = self._heads(of_target(feat_dst))[0]
        result: Any = edge_attention(  # type: ignore[call-overload]
            layout,
            query,
            key,
            value,
            edge_weight=edge_weight,
            dropout=self.attn_drop if self.training else 0.0,
            get_attention=get_attention,
            allow_zero_in_degree=self.allow_zero_in_degree,
            backend=self.backend,
        )
        attended, weights = result if get_attention else (result, None)
        by_head = (*feat_dst.shape[1:-1], *self.by_head)
        out: Tensor = attended.unflatten(1, by_head[:-1])
        if self.res_fc is not None:
            out = out + self.res_fc(feat_dst).unflatten(-1, self.by_head)
        if self.bias is not None:
            out = out + self.bias.view(self.by_head)
        out = out if self.activation is None else self.activation(out)
        return out if weights is None else (out, weights.unflatten(1, by_head[:-1])[..., None])

    def _heads(self, projected: Tensor) -> list[Tensor]:
        """Return parts `(N, heads, D)` of `(N, *, width)`: dimensions between are heads too."""
        heads, feats = self.by_head
        parts = projected.unflatten(-1, (-1, feats)).split(heads, -2)
        return [part.flatten(1, -2) for part in parts]

    def extra_repr(self) -> str:
        """Return the settings that `print` shows."""
        heads, feats = self.by_head
        return f"num_heads={heads}, out_feats={feats}, backend={self.backend!r}"


class ConvAsAttention(nn.Module):
    """A layer of DGL in the place of attention in a step, so that its nodes have their own depth.

    A node's result may depend on its own features, its in-edges and their sources alone, as in
    `dgl.nn.GATConv`, `GINConv` and `SAGEConv`.

    Parameters
    ----------
    conv : Module
        The layer: called with a DGL block and the pair of features of its sources and
        destinations, it returns `(N_dst, feats)`, or `(N_dst, H, D)` with `feats = H * D`. In-edges
        come in the order of their sources, which `SAGEConv` with an LSTM is alone to notice.
    feats : int
        Features of a node.

    Raises
    ------
    ValueError
        If the layer divides by the out-degrees of sources, as `dgl.nn.GraphConv` does by default:
        they depend on who is active.

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

    key_value = None  # nothing is projected
    key_value_flops = 0

    def __init__(self, conv: nn.Module, feats: int) -> None:
        super().__init__()
        for part in conv.modules():
            if isinstance(part, dgl.nn.GraphConv) and part._norm in ("both", "left"):
                raise ValueError(
                    f"GraphConv with norm={part._norm!r} divides by the out-degrees of sources, "
                    "which would depend on who is active: give it norm='right' or norm='none'"
                )
        self.conv = conv
        self.in_feats, self.out_feats = (feats, feats), feats

    def reset_parameters(self) -> None:
        """Draw the parameters anew, of each part that can do so."""
        for part in reversed([*self.conv.modules()]):  # a layer after its maps
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
        """Return the features as they are."""
        return feat_src

    def takes_counts(self, layout: EdgeLayout, like: Tensor) -> bool:
        """Return False: DGL needs to know the number of rows."""
        return False

    def in_place_key_value(self, layout: EdgeLayout, like: Tensor) -> None:
        """Return None: features are handed to the layer as one tensor."""

    def forward(self, graph: DGLGraph | EdgeLayout, feat: Tensor, **options: Any) -> Tensor:
        """Call the layer on a graph; the options are those of `attend`."""
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
        """Call the layer for destination rows `(A, feats)` of all nodes, or of the frontier.

        ValueError if anything else is asked for, such as an edge bias: the layer knows of none.
        """
        asked = [name for name, value in others.items() if value is not None and value is not False]
        if asked:
            raise ValueError(
                f"{type(self.conv).__name__} in the place of attention has no {asked[0]}"
            )
        if frontier is None:
            block, sources = layout.derive(_block)
        else:
            block, sources = _block(layout, frontier)
        feat = feat_src[sources]
        if not len(feat):  # DGL's derivative of a maximum asks for a source
            feat = feat_src.new_zeros(1, feat_src.shape[1])
            block = dgl.create_block(([], []), 1, len(rows))
        dtype = first_weight(self.conv, feat).dtype
        with outside_autocast(feat.device.type):  # DGL's kernels take features of one dtype
            out: Tensor = self.conv(block, (feat.to(dtype), rows.to(dtype)))
        return out.flatten(1), None


def _block(layout: EdgeLayout, frontier: Tensor | None = None) -> tuple[Any, Tensor]:
    """Return in-edges of all nodes, or of some, as a DGL block, and the nodes they come from."""
    row, source, _ = layout.in_edges(frontier)
    sources, place = source.unique(return_inverse=True)
    num_dst = layout.num_dst if frontier is None else len(frontier)
    return dgl.create_block((place, row), len(sources), num_dst), sources


class OutputOnly(nn.Module):
    """An adaptive recurrence that returns its output alone, as `dgl.nn.Sequential` needs it.

    Parameters
    ----------
    layer : Module
        `AdaptiveRecurrence`, or `EdgeIndexLayer` with one inside: it returns output and ponder
        record.

    Attributes
    ----------
    ponder : Ponder or None
        The record of the last call, with its cost; not part of copies and files of the module.

    Examples
    --------
    >>> from graphut.nn import AdaptiveRecurrence, HaltingUnit, MultiHeadAttention
    >>> from graphut.nn import PositionwiseTransition, UniversalTransformerStep
    >>> from graphut.topology import Complete
    >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
    >>> layer = OutputOnly(AdaptiveRecurrence(step, HaltingUnit(8)))
    >>> layer(Complete().graph([3]), torch.randn(3, 8)).shape, layer.ponder.steps.shape
    (torch.Size([3, 8]), torch.Size([3]))
    """

    ponder: Ponder | None

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.ponder = None

    def forward(self, *args: Any, **options: Any) -> Tensor:
        """Call the inner layer; keep its ponder record, and return its output."""
        out: Tensor
        out, self.ponder = self.layer(*args, **options)
        return out

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the record, which belongs to one call."""
        return {**self.__dict__, "ponder": None}
