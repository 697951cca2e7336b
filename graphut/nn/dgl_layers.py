"""Dot-product attention with the interface of DGL's `GATConv`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout, edge_attention
from graphut.nn.input_checks import PASS_A_PAIR, check_feat, check_same_nodes
from graphut.nn.module_checks import check_attention_options


class DotGATConv(nn.Module):
    r"""Dot-product attention with the constructor and the call of `dgl.nn.GATConv`.

    .. math::
        h_i^{(l+1)} = \sum_{j \in E(i)} a_{ij} W h_j, \qquad
        a_{ij} = \mathrm{softmax}_{j \in E(i)} \frac{W h_i \cdot W h_j}{\sqrt{d}}

    for each head. This is the formula of `dgl.nn.DotGatConv`. With the same seed both layers have
    the same initial weights. With `bias=False` this layer can load the parameters of the other.
    Residual, bias, activation, dropout and edge weights work as in `dgl.nn.GATConv`.

    Parameters
    ----------
    in_feats : int or pair of int
        Features of a node. With a pair, sources and destinations have separate linear maps.
    negative_slope : float
        Ignored: dot products have no LeakyReLU.
    allow_zero_in_degree : bool
        Return zeros for a node without in-edges, before residual and bias, instead of raising an
        error.
    out_feats, num_heads, feat_drop, attn_drop, residual, activation, bias
        See `dgl.nn.GATConv`.
    share_projection : bool
        Use one linear map for keys and values, and for queries if `in_feats` is an int. If False,
        queries, keys and values have separate maps, as in `MultiHeadAttention`.
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
        src_feats, dst_feats = in_feats if isinstance(in_feats, tuple) else (in_feats, in_feats)
        sizes = {"in_feats": min(src_feats, dst_feats), "out_feats": out_feats}
        check_attention_options(backend, attn_drop, num_heads=num_heads, **sizes)
        self._in_feats = (src_feats, dst_feats)
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
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None
        self.by_head = (num_heads, out_feats)
        self.share_projection = share_projection
        self.activation = activation
        self.allow_zero_in_degree = allow_zero_in_degree
        self.backend = backend

    def reset_parameters(self) -> None:
        """Draw new parameters as `torch.nn.Linear` does; set the bias to zero."""
        for layer in self.children():
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Set whether nodes without in-edges are accepted."""
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
        feat : Tensor or pair of Tensor
            `(N, *, in_feats)`, or a pair for sources and destinations.
        edge_weight : Tensor, optional
            `(E,)`, multiplied to the attention weights after the softmax.
        graph, get_attention
            See `MultiHeadAttention`.

        Returns
        -------
        Tensor
            `(N_dst, *, num_heads, out_feats)`
        Tensor
            With `get_attention`: `(E, *, num_heads, 1)`.

        Raises
        ------
        TypeError, ValueError
            If the features do not fit the graph or the layer, or if a node has no in-edge.
        """
        layout = as_layout(graph)
        feat_src, feat_dst = feat if isinstance(feat, tuple) else (feat, None)
        check_feat(feat_src, "source", layout.num_src, self._in_feats[0], self, inner=True)
        if feat_dst is None:
            check_same_nodes(graph, PASS_A_PAIR)
        else:
            check_feat(feat_dst, "destination", layout.num_dst, self._in_feats[1], self, inner=True)
        feat_src = self.feat_drop(feat_src)
        maps = (self.fc, self.fc) if hasattr(self, "fc") else (self.fc_src, self.fc_dst)
        key, *others = self._heads(maps[0](feat_src))
        value = others[0] if others else key  # keys and values may share a map
        shares_query = feat_dst is None and maps[0] is maps[1]
        # A block's destinations are its first sources; in other graphs they are all sources.
        feat_dst = feat_src[: layout.num_dst] if feat_dst is None else self.feat_drop(feat_dst)
        query = key[: layout.num_dst] if shares_query else self._heads(maps[1](feat_dst))[0]
        result: Any = edge_attention(
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
        """Split `(N, *, k * heads * D)` into a list of `k` tensors `(N, prod(*) * heads, D)`."""
        heads, feats = self.by_head
        parts = projected.unflatten(-1, (-1, feats)).split(heads, -2)
        return [part.flatten(1, -2) for part in parts]
