"""`edge_attention`: multi-head attention over the edges of a graph."""

from dataclasses import replace
from operator import index
from typing import Any

import torch
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention.backend import AttentionCall
from graphut.attention.checks import (
    check_call,
    check_edge_feat,
    check_finite,
    check_nonempty_rows,
    checks_are_skipped,
    refuse_output,
)
from graphut.attention.dgl_layouts import as_layout
from graphut.attention.dropout import draw_seed
from graphut.attention.edge_sums import edge_sum
from graphut.attention.layout import EdgeLayout
from graphut.attention.native.attention import NATIVE
from graphut.attention.registry import check_backend, choose
from graphut.attention.tracing import in_jit_trace, outside_autocast, uncompiled


@uncompiled
def edge_attention(
    graph: DGLGraph | EdgeLayout,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    frontier: Tensor | None = None,
    edge_bias: Tensor | None = None,
    edge_feat: Tensor | None = None,
    edge_map: Tensor | None = None,
    edge_weight: Tensor | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    get_attention: bool = False,
    allow_zero_in_degree: bool = False,
    backend: str = "auto",
) -> Any:
    r"""Compute scaled dot-product attention of each destination over its in-edges.

    With :math:`E(i)` the in-edges of destination :math:`i`, for each head,

    .. math::
        a_{ij} = \mathrm{softmax}_{j \in E(i)}(s \, q_i \cdot k_j + b_{ij}), \qquad
        o_i = \sum_{j \in E(i)} a_{ij} v_j

    as in "Attention Is All You Need" (arXiv 1706.03762, Eq. 1), on a graph. Edge features
    :math:`e_{ij}` with a map :math:`W` add :math:`W e_{ij}` to :math:`k_j` and to :math:`v_j`
    (arXiv 2009.03509, section 3.1).

    Parameters
    ----------
    graph : DGLGraph or EdgeLayout
        The edges. The layout of a DGL graph is computed once and kept with the graph.
    query : Tensor
        `(N_dst, H, D)`, or `(A, H, D)` with a `frontier` of `A` destinations.
    key : Tensor
        `(N_src, H, D)`.
    value : Tensor
        `(N_src, H, Dv)`.
    frontier : Tensor, optional
        `(A,)` int64 ids of the destinations to compute, sorted and unique; all by default.
    edge_bias : Tensor, optional
        `(E,)` or `(E, H)`, added to the scores; row `e` belongs to edge id `e`.
    edge_feat : Tensor, optional
        `(E, F)` with an `edge_map`, or `(E, H, D)` without: added to key and value of each edge.
    edge_map : Tensor, optional
        `(H, D, F)`, the map `W` of edge features. No tensor of shape `(E, H, D)` is allocated,
        because `q . (W e) = (W^T q) . e` and `sum a (W e) = W sum a e`.
    edge_weight : Tensor, optional
        `(E,)` or `(E, H)`, factors of the attention weights after the softmax.
    scale : float, optional
        Factor of the scores. The default is `1 / sqrt(D)`.
    dropout : float
        Dropout probability of attention weights, in `[0, 1)`.
    seed : int, optional
        Seed of the dropout mask, which depends only on seed, edge id and head. The default is drawn
        from torch's generator.
    get_attention : bool
        Also return the attention weights, after dropout and `edge_weight`.
    allow_zero_in_degree : bool
        Return zeros for a destination without in-edges, instead of raising an error.
    backend : str
        A name in ``graphut.attention.BACKENDS``, or `"auto"`: the fastest one for such calls.
        `"dense"` uses masks and is the reference; `"dgl"` uses message passing on `dgl.ops`;
        `"torch"` uses plain torch; `"native"` uses C++, for the CPU; `"triton"` is for GPUs.
        The last two cannot return attention weights, so calls with `get_attention`, `edge_feat`
        or `edge_weight` use `"torch"` in their place. Only the gradients of `"dense"` can always
        be differentiated again; those of `"torch"` can if the graph is sparse.

    Returns
    -------
    Tensor
        `(N_dst, H, Dv)` or `(A, H, Dv)`.
    Tensor
        With `get_attention`: attention weights `(E, H)` by edge id; zero for edges into
        destinations outside of `frontier`.

    Raises
    ------
    TypeError, ValueError
        If shapes, dtypes, devices or the frontier do not fit the graph, if the backend is unknown,
        or if a destination has no in-edge, or in some head only in-edges with the bias `-inf`. On
        the CPU also if a feature or the output is not finite.
    RuntimeError
        In `torch.jit.trace`.

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
    if in_jit_trace():
        raise RuntimeError("torch.jit.trace cannot record edge_attention: use torch.compile")
    layout = as_layout(graph)
    checked = not checks_are_skipped()
    if checked:
        check_backend(backend)
        check_call(layout, query, key, value, frontier, edge_bias, edge_weight, scale, dropout)
        if edge_feat is not None:
            check_edge_feat(layout, query, value, edge_feat, edge_map)
        elif edge_map is not None:
            raise ValueError("edge_map maps edge features: pass edge_feat too")
    call = AttentionCall(
        layout=layout.to(query.device),
        query=query,
        key=key,
        value=value,
        frontier=frontier,
        edge_bias=_by_head(edge_bias),
        edge_weight=_by_head(edge_weight),
        scale=query.shape[-1] ** -0.5 if scale is None else scale,
        dropout=dropout,
        seed=index(seed) if seed is not None else draw_seed(query.device) if dropout else 0,
        need_weights=get_attention or edge_feat is not None or edge_weight is not None,
    )
    if edge_feat is not None:
        call = _with_edge_feat(call, edge_feat, edge_map)
    if checked and not allow_zero_in_degree:
        check_nonempty_rows(call)
    chosen = choose(backend, call)
    if checked:
        check_finite(query=query, key=key, value=value)  # the weight of an infinite key may be 0
    with outside_autocast(query.device.type):
        out, weights = chosen.attend(call)
        if call.edge_feat is not None and weights is not None:
            out = out + _attended_edges(call, weights, edge_map).to(out.dtype)
    # The compiled kernels check their output. Reading a value of a GPU would wait for it.
    must_check = checked and chosen is not NATIVE and out.device.type == "cpu"
    if must_check and not bool(out.detach().isfinite().all()):
        refuse_output(query, key, value)
    if not get_attention:
        return out
    assert weights is not None
    by_edge = weights.new_zeros(layout.num_edges, weights.shape[1])
    return out, by_edge.index_copy(0, call.edges[2], weights)


def _by_head(by_edge: Tensor | None) -> Tensor | None:
    return by_edge if by_edge is None or by_edge.dim() == 2 else by_edge[:, None]


def _with_edge_feat(call: AttentionCall, feat: Tensor, edge_map: Tensor | None) -> AttentionCall:
    """Return a copy of the call with edge features, and with queries mapped to their space."""
    wide = call.score_dtype
    with outside_autocast(call.query.device.type):
        query, feat = call.query.to(wide) * call.scale, feat.to(wide)
        if edge_map is not None:
            query = torch.einsum("ahd,hdf->ahf", query, edge_map.to(wide))
            feat = feat[:, None]
    return replace(call, edge_query=query, edge_feat=feat)


def _attended_edges(call: AttentionCall, weights: Tensor, edge_map: Tensor | None) -> Tensor:
    """Return each query row's attention-weighted sum of mapped edge features, `(A, H, D)`."""
    assert call.edge_feat is not None
    row, _, edge = call.edges
    summed = edge_sum(weights, call.edge_feat, row, edge, call.query.shape[0])
    if edge_map is None:
        return summed
    return torch.einsum("ahf,hdf->ahd", summed, edge_map.to(summed.dtype))
