"""`edge_attention`: multi-head attention over the edges of a graph."""

from __future__ import annotations

from dataclasses import replace
from operator import index
from typing import Any, Literal, overload

import torch
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention.backends import check_backend, choose
from graphut.attention.call import AttentionCall
from graphut.attention.checks import (
    check_call,
    check_edge_feat,
    check_features,
    check_nonempty_rows,
    checks_are_skipped,
)
from graphut.attention.dropout import draw_seed
from graphut.attention.edge_sums import edge_sum
from graphut.attention.graphs import as_layout
from graphut.attention.layout import EdgeLayout
from graphut.attention.native.ops import fast_bounds
from graphut.attention.transforms import outside_autocast, unwrap_functorch


@overload
def edge_attention(
    graph: DGLGraph | EdgeLayout,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    frontier: Tensor | None = ...,
    edge_bias: Tensor | None = ...,
    relative_bias: Tensor | None = ...,
    edge_feat: Tensor | None = ...,
    edge_map: Tensor | None = ...,
    edge_weight: Tensor | None = ...,
    scale: float | Tensor | None = ...,
    dropout: float = ...,
    seed: int | None = ...,
    get_attention: Literal[False] = ...,
    allow_zero_in_degree: bool = ...,
    backend: str = ...,
) -> Tensor: ...


@overload
def edge_attention(
    graph: DGLGraph | EdgeLayout,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    frontier: Tensor | None = ...,
    edge_bias: Tensor | None = ...,
    relative_bias: Tensor | None = ...,
    edge_feat: Tensor | None = ...,
    edge_map: Tensor | None = ...,
    edge_weight: Tensor | None = ...,
    scale: float | Tensor | None = ...,
    dropout: float = ...,
    seed: int | None = ...,
    get_attention: Literal[True],
    allow_zero_in_degree: bool = ...,
    backend: str = ...,
) -> tuple[Tensor, Tensor]: ...


def edge_attention(
    graph: DGLGraph | EdgeLayout,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    frontier: Tensor | None = None,
    edge_bias: Tensor | None = None,
    relative_bias: Tensor | None = None,
    edge_feat: Tensor | None = None,
    edge_map: Tensor | None = None,
    edge_weight: Tensor | None = None,
    scale: float | Tensor | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    get_attention: bool = False,
    allow_zero_in_degree: bool = False,
    backend: str = "auto",
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Scaled dot-product attention of each destination over its in-edges.

    With :math:`E(i)` the in-edges of destination :math:`i`, for each head,

    .. math::
        a_{ij} = \mathrm{softmax}_{j \in E(i)}(s_i \, q_i \cdot k_j + b_{ij}), \qquad
        o_i = \sum_{j \in E(i)} a_{ij} v_j

    as in "Attention Is All You Need" (arXiv 1706.03762, Eq. 1), on a graph. With features
    :math:`e_{ij}` of edges and their map :math:`W`, :math:`k_j + W e_{ij}` takes the place of
    :math:`k_j`, and :math:`v_j + W e_{ij}` that of :math:`v_j` (arXiv 2009.03509, section 3.1).

    Parameters
    ----------
    graph : DGLGraph or EdgeLayout
        The edges. Its layout is found once and kept with the graph.
    query : Tensor
        `(N_dst, H, D)`, or `(A, H, D)` with a `frontier` of `A` destinations.
    key : Tensor
        `(N_src, H, D)`.
    value : Tensor
        `(N_src, H, Dv)`.
    frontier : Tensor, optional
        `(A,)` int64 destination ids, sorted and unique: only they are computed.
    edge_bias : Tensor, optional
        `(E,)` or `(E, H)`, added to the scores; row `e` belongs to edge id `e`.
    relative_bias : Tensor, optional
        `(H, 2 R + 1)`, added to the scores by source minus destination, from `-R` to `R`; offsets
        beyond `R` take the last entries (arXiv 1803.02155, section 3.2, as a bias). Only for
        graphs whose sources are their destinations.
    edge_feat : Tensor, optional
        `(E, F)` with an `edge_map`, or `(E, H, D)` without: added to key and value of edge id `e`.
    edge_map : Tensor, optional
        `(H, D, F)`, `W`, by which features of edges become those of keys and values. No tensor of
        `E x H x D` is made: `q . (W e) = (W^T q) . e`, and `sum a (W e) = W sum a e`.
    edge_weight : Tensor, optional
        `(E,)` or `(E, H)`, factors of the attention weights after the softmax.
    scale : float or Tensor, optional
        Factor of the scores, one number or one a query row; `1 / sqrt(D)` if not given.
    dropout : float
        Probability that an attention weight is dropped, in `[0, 1)`.
    seed : int, optional
        Of the dropout mask, which is a function of seed, edge id and head alone. Drawn from
        torch's generator if not given.
    get_attention : bool
        Also return the attention weights, after dropout and `edge_weight`.
    allow_zero_in_degree : bool
        Give zeros to a destination without in-edges, in place of an error.
    backend : str
        `"auto"`: what `graphut bench attention --remember` found to be fastest for such calls on
        this machine, or a fixed choice before. Or a name in ``graphut.attention.BACKENDS``:
        `"dense"` (masks; the oracle), `"dgl"` (message passing on `dgl.ops`), `"torch"` (tiles
        and segments), `"native"` (C++, for the CPU), `"triton"` (for the GPU). The last two have
        no weights of single edges: with `get_attention`, `edge_feat` or `edge_weight`, `"torch"`
        takes their place. `"dense"` has second derivatives everywhere, `"torch"` on graphs whose
        in-neighbours are no intervals or with an `edge_bias`; `"dgl"` and `"native"` have none,
        and raise.

    Returns
    -------
    Tensor
        `(N_dst, H, Dv)` or `(A, H, Dv)`: one row for each query row.
    Tensor
        With `get_attention`: `(E, H)` weights by edge id, zero for edges into destinations
        outside the frontier.

    Raises
    ------
    TypeError, ValueError
        If shapes, dtypes, devices or the frontier do not fit the graph, if the backend is
        unknown, or if a destination has no in-edge (or none whose score is above `-inf`). On the
        CPU also if a feature or a scale is not finite, or a score or a sum of values too large for
        its dtype. A compiled program looks at no numbers, but for those that kernels find wrong.
    RuntimeError
        If the backend of that name is not for torch.func's transforms.

    Examples
    --------
    >>> import torch
    >>> from graphut.topology import Causal
    >>> graph = Causal().graph([2, 3])
    >>> x = torch.randn(5, 4, 8)
    >>> edge_attention(graph, x, x, x).shape
    torch.Size([5, 4, 8])
    >>> edge_attention(graph, x[[1, 4]], x, x, frontier=torch.tensor([1, 4])).shape
    torch.Size([2, 4, 8])
    """
    layout = as_layout(graph)
    checked = not checks_are_skipped()
    if checked:
        check_backend(backend)
        bias = (edge_bias, relative_bias, edge_weight)
        check_call(layout, query, key, value, frontier, *bias, scale, dropout)
        if edge_feat is not None:
            check_edge_feat(layout, query, value, edge_feat, edge_map)
        elif edge_map is not None:
            raise ValueError("edge_map is for features of edges: give edge_feat too")
    if isinstance(scale, Tensor):
        query, scale = query * scale.to(query.dtype)[:, None, None], 1.0
    call = AttentionCall(
        layout=layout.to(query.device),
        query=query,
        key=key,
        value=value,
        frontier=None if frontier is None else unwrap_functorch(frontier),
        edge_bias=_by_head(edge_bias),
        relative_bias=relative_bias,
        edge_weight=_by_head(edge_weight),
        scale=query.shape[-1] ** -0.5 if scale is None else scale,
        dropout=dropout,
        seed=_seed(seed) if seed is not None else draw_seed(query.device) if dropout else 0,
        need_weights=get_attention or edge_feat is not None or edge_weight is not None,
    )
    if edge_feat is not None:
        call = _with_edge_feat(call, edge_feat, edge_map)
    if checked and not allow_zero_in_degree:
        check_nonempty_rows(call)
    chosen = choose(backend, call)
    # A GPU is not waited for.
    if checked and query.device.type == "cpu":
        check_features(call, fast_bounds)
    with outside_autocast(query.device.type):
        out, weights = chosen.attend(call)
        if call.edge_feat is not None and weights is not None:
            out = out + _attended_edges(call, weights, edge_map).to(out.dtype)
    if not get_attention:
        return out
    assert weights is not None
    by_edge = weights.new_zeros(layout.num_edges, weights.shape[1])
    return out, by_edge.index_copy(0, call.edges[2], weights)


def _seed(seed: Any) -> int:
    if isinstance(seed, int):
        return seed
    try:
        return index(seed)
    except TypeError:
        raise TypeError(f"seed must be an integer, got {seed!r}") from None


def _by_head(of_edges: Tensor | None) -> Tensor | None:
    return of_edges if of_edges is None or of_edges.dim() == 2 else of_edges[:, None]


def _with_edge_feat(call: AttentionCall, feat: Tensor, edge_map: Tensor | None) -> AttentionCall:
    """Return the call with features of edges, and with the queries that meet them."""
    wide = call.score_dtype
    with outside_autocast(call.query.device.type):
        query, feat = call.query.to(wide) * call.scale, feat.to(wide)
        if edge_map is not None:
            query = torch.einsum("ahd,hdf->ahf", query, edge_map.to(wide))
            feat = feat[:, None]
    return replace(call, edge_query=query, edge_feat=feat)


def _attended_edges(call: AttentionCall, weights: Tensor, edge_map: Tensor | None) -> Tensor:
    """Return what the features of edges add to the output, `(A, H, D)`."""
    assert call.edge_feat is not None
    row, _, edge = call.edges
    summed = edge_sum(weights, call.edge_feat, row, edge, call.query.shape[0])
    if edge_map is None:
        return summed
    return torch.einsum("ahf,hdf->ahd", summed, edge_map.to(summed.dtype))
