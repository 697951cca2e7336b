"""Multi-head attention over the edges of a graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log1p
from typing import Any

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout, edge_attention, kernel_library
from graphut.attention.checks import check_feat, check_frontier
from graphut.attention.key_value_memory import KeyValueMemory, uses_triton
from graphut.attention.ragged import starts
from graphut.nn.checks import PASS_A_PAIR, check_attention_options, check_same_nodes
from graphut.nn.layers import call_layer, is_hooked

# In-degree at which `scale_by_degree` has no effect at first: the mean of causal attention in
# sentences of up to 40 tokens.
USUAL_DEGREE = 20


class MultiHeadAttention(nn.Module):
    r"""Multi-head dot-product attention over the in-edges of each node.

    .. math::
        \mathrm{MultiHead}(x)_i = W^O \, \Vert_h \sum_{j \in E(i)} a_{ij}^h W^V_h x_j, \qquad
        a_{ij}^h = \mathrm{softmax}_{j \in E(i)} \frac{W^Q_h x_i \cdot W^K_h x_j}{\sqrt{d_{head}}}

    From "Attention Is All You Need" (arXiv 1706.03762, section 3.2), as in arXiv 1807.03819,
    Eqs. 1 to 3.

    Parameters
    ----------
    in_feats : int or pair of int
        Features of a node, or `(source, destination)`.
    allow_zero_in_degree : bool
        Let the heads of a node without in-edges be zero, instead of raising an error.
    scale_by_degree : bool
        Multiply the scores of destination :math:`i` by :math:`s_h \log(1 + |E(i)|)` with a learned
        :math:`s_h` for each head, so that softmax over many in-edges is as sharp as over few (arXiv
        2202.12172, arXiv 2501.19399). The factor is initialized to 1 at 20 in-edges.
    symmetric_init : bool
        Initialize the key projection with the query projection, so that nodes first attend to
        similar nodes (arXiv 2502.10927).
    edge_dim : int, optional
        Features of an edge, `edge_feat` in each call. A learned linear map of them is added to keys
        and values (arXiv 2009.03509, section 3.1).
    num_heads, attn_drop, backend
        See `graphut.attention.edge_attention`; `attn_drop` is its `dropout`, in training.
    bias : bool
        Use biases in the projections of queries, keys, values and results.

    Raises
    ------
    ValueError
        If a size or probability is out of range, or if sources and destinations have different
        numbers of features and `symmetric_init` is set.

    Examples
    --------
    >>> from graphut._dgl import dgl
    >>> graph = dgl.add_self_loop(dgl.graph(([0, 1], [1, 2])))
    >>> MultiHeadAttention(16, num_heads=4)(graph, torch.randn(3, 16)).shape
    torch.Size([3, 16])
    """

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        num_heads: int,
        *,
        attn_drop: float = 0.0,
        allow_zero_in_degree: bool = False,
        scale_by_degree: bool = False,
        symmetric_init: bool = False,
        edge_dim: int | None = None,
        bias: bool = True,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        src_feats, dst_feats = in_feats if isinstance(in_feats, tuple) else (in_feats, in_feats)
        sizes = {"in_feats": min(src_feats, dst_feats), "num_heads": num_heads}
        check_attention_options(backend, attn_drop, **sizes, edge_dim=edge_dim)
        if dst_feats % num_heads:
            raise ValueError(
                f"{dst_feats} features do not divide into {num_heads} heads; choose another number"
            )
        if symmetric_init and src_feats != dst_feats:
            raise ValueError(
                "symmetric_init needs sources and destinations with the same number of features, "
                f"got in_feats={in_feats}"
            )
        self.in_feats = (src_feats, dst_feats)
        self.out_feats = dst_feats
        self.num_heads = num_heads
        self.head_feats = dst_feats // num_heads
        self.attn_drop = attn_drop
        self.edge_dim = edge_dim
        self.allow_zero_in_degree = allow_zero_in_degree
        self.symmetric_init = symmetric_init
        self.backend = backend
        edge_feats = edge_dim or 0
        #: Floating-point operations for the query and the output of one destination.
        self.node_flops = 4 * dst_feats * (dst_feats + edge_feats)
        #: Floating-point operations for the key and the value of one source.
        self.key_value_flops = 4 * dst_feats * src_feats
        #: Floating-point operations for one edge: its score and its weighted value.
        self.edge_flops = 4 * (dst_feats + num_heads * edge_feats)
        self.query = nn.Linear(dst_feats, dst_feats, bias=bias)
        self.key_value = nn.Linear(src_feats, 2 * dst_feats, bias=bias)
        self.output = nn.Linear(dst_feats, dst_feats, bias=bias)
        self.edge = None if edge_dim is None else nn.Linear(edge_dim, dst_feats, bias=False)
        self.degree_scale = nn.Parameter(torch.empty(num_heads)) if scale_by_degree else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters: Xavier uniform for each linear map, zero for biases."""
        key, value = self.key_value.weight.chunk(2)
        for weight in (self.query.weight, key, value, self.output.weight):
            nn.init.xavier_uniform_(weight)
        if self.symmetric_init:
            key.data.copy_(self.query.weight)
        for layer in (self.query, self.key_value, self.output):
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        if self.edge is not None:
            nn.init.xavier_uniform_(self.edge.weight)
        if self.degree_scale is not None:
            nn.init.constant_(self.degree_scale, 1 / log1p(USUAL_DEGREE))

    def forward(
        self,
        graph: DGLGraph | EdgeLayout,
        feat: Tensor | tuple[Tensor, Tensor],
        *,
        frontier: Tensor | None = None,
        edge_bias: Tensor | None = None,
        edge_feat: Tensor | None = None,
        edge_weight: Tensor | None = None,
        get_attention: bool = False,
        stored: Tensor | KeyValueMemory | None = None,
        value_shift: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend over the in-edges of all destinations, or of the destinations in `frontier`.

        Parameters
        ----------
        graph : DGLGraph or EdgeLayout
            A homogeneous or bipartite graph, or a block of DGL.
        feat : Tensor or pair of Tensor
            `(N, in_feats)`, or `((N_src, F_src), (N_dst, F_dst))`. For a block, a single tensor
            holds the features of its sources, which begin with its destinations.
        frontier : Tensor, optional
            `(A,)` sorted ids of the destinations to compute; all by default.
        edge_bias : Tensor, optional
            `(E,)` or `(E, num_heads)`, added to the scores: for example a linear map of edge
            features, or the logarithm of edge weights, which counts an edge of weight 2 twice.
        edge_feat : Tensor, optional
            `(E, edge_dim)`, edge features, for a layer with `edge_dim`.
        edge_weight : Tensor, optional
            `(E,)` or `(E, num_heads)`, factors of the attention weights after the softmax.
        get_attention : bool
            Also return the attention weights, `(E, num_heads)`, indexed by edge id; they are
            zero for edges into destinations outside `frontier`.
        stored, value_shift
            Keys and values of all sources, which a recurrence has stored, and a vector to be added
            to all values. Then `feat` has only the rows of the destinations to compute.

        Returns
        -------
        Tensor
            `(N_dst, F_dst)` or `(A, F_dst)`

        Raises
        ------
        TypeError, ValueError
            If the features do not fit the graph or the layer, or if a node has no in-edge.
        """
        layout: Any = graph
        rows: Any = feat
        if stored is None:
            layout = as_layout(graph)
            rows, stored = self._read(graph, feat, frontier)
        # Reading a submodule as an attribute takes several times as long.
        parts, by_head = self._modules, (self.num_heads, self.head_feats)
        query = call_layer(parts["query"], rows)
        query = query.reshape(query.shape[0], *by_head)
        if self.degree_scale is not None:
            query = self._scaled(query, layout, frontier)
        if isinstance(stored, KeyValueMemory):
            out = stored.attend(layout, query, frontier, by_head[1] ** -0.5).flatten(1)
            # The weights of a node sum to one, so that shifting all values shifts all results.
            return call_layer(parts["output"], out if value_shift is None else out + value_shift)
        dropout = self.attn_drop if self.training else 0.0
        # If the weights of every node sum to one, shifting all values shifts all results.
        sum_to_one = not (dropout or layout.has_empty_rows)
        sum_to_one = sum_to_one and edge_bias is None and edge_weight is None
        options: dict[str, Any] = edge_feature_options(edge_feat, self.edge, by_head)
        key, value = stored.unflatten(1, (2, *by_head)).unbind(1)
        if value_shift is not None and not sum_to_one:
            value = value + value_shift.view(by_head)
        result = edge_attention(
            layout,
            query,
            key,
            value,
            frontier=frontier,
            edge_bias=edge_bias,
            edge_weight=edge_weight,
            dropout=dropout,
            get_attention=get_attention,
            allow_zero_in_degree=self.allow_zero_in_degree,
            backend=self.backend,
            **options,
        )
        out, weights = result if get_attention else (result, None)
        out = out.flatten(1)
        if value_shift is not None and sum_to_one:
            out = out + value_shift
        out = call_layer(parts["output"], out)
        return out if weights is None else (out, weights)

    def _read(
        self, graph: DGLGraph | EdgeLayout, feat: Any, frontier: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Check the arguments; return the features of destinations, and keys and values."""
        layout = as_layout(graph)
        if isinstance(feat, tuple):
            feat_src, feat_dst = feat
            check_feat(feat_src, "source", layout.num_src, self.in_feats[0], self)
        else:
            check_same_nodes(graph, PASS_A_PAIR)
            check_feat(feat, "source", layout.num_src, self.in_feats[0], self)
            # A block's destinations are its first sources; elsewhere the two are the same nodes.
            feat_src, feat_dst = feat, feat[: layout.num_dst]
        check_feat(feat_dst, "destination", layout.num_dst, self.in_feats[1], self)
        if frontier is not None:
            check_frontier(layout, frontier)
        return feat_dst if frontier is None else feat_dst[frontier], self.project(feat_src)

    def project(self, feat_src: Tensor) -> Tensor:
        """Return the keys and values of the sources, `(N_src, 2 * num_heads * head_feats)`."""
        return call_layer(self._modules["key_value"], feat_src)

    @property
    def has_plain_projection(self) -> bool:
        """True if `project` is not overridden and `key_value` is a plain `Linear` without hooks."""
        layer: Any = self._modules["key_value"]
        is_own = type(self).project is MultiHeadAttention.project
        return is_own and type(layer) is nn.Linear and not is_hooked(layer)

    def fits_memory(self, layout: EdgeLayout, like: Tensor) -> bool:
        """Return whether the layer reads a `KeyValueMemory`: compiled kernels run on this layout.

        `like` has the device and the dtype of the features.
        """
        if self.backend not in ("auto", "native") or like.device.type != "cpu":
            return False
        by_edge = self.edge or (self.training and self.attn_drop)
        if by_edge or layout.has_empty_rows:
            return False
        if kernel_library.LIBRARY is None:
            return False
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else like.dtype
        # The result of another projection may be used elsewhere too.
        return dtype in kernel_library.DTYPES and self.has_plain_projection

    def uses_triton(self, layout: EdgeLayout, like: Tensor) -> bool:
        """Return whether Triton kernels compute attention, for features like `like` on a GPU."""
        allow_zero = self.allow_zero_in_degree
        return uses_triton(
            self.backend, layout, self.num_heads, like, allow_zero_in_degree=allow_zero
        )

    def _scaled(self, query: Tensor, layout: EdgeLayout, frontier: Tensor | None) -> Tensor:
        """Return queries times the factors of `scale_by_degree`, for any backend."""
        assert self.degree_scale is not None
        degrees = layout.in_degrees if frontier is None else layout.in_degrees[frontier]
        factor = degrees.to(self.degree_scale.dtype).log1p()[:, None] * self.degree_scale
        return (query * factor[:, :, None]).to(query.dtype)

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}, attn_drop={self.attn_drop}, backend={self.backend!r}"


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """The edges of one attention layer, and their weights in each step of a recurrence.

    Examples
    --------
    >>> from graphut.nn import AdaptiveRecurrence
    >>> from graphut.nn import MultiHeadAttention, PositionwiseTransition, UniversalTransformerStep
    >>> from graphut.topology import Causal
    >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
    >>> layer = AdaptiveRecurrence(step, max_steps=3)
    >>> _, ponder, _ = layer(Causal().graph([4, 2]), torch.randn(6, 8), get_attention=True)
    >>> ponder.attention.weights[0].shape
    torch.Size([13, 2])
    >>> ponder.attention.dense(1).shape
    torch.Size([3, 2, 2, 2])
    """

    layout: EdgeLayout  #: `layout.in_edges()` returns destination, source and id of each edge
    #: `(E, H)` for each step, by edge id: zero for edges into nodes that the step did not compute
    weights: Sequence[Tensor]

    def dense(self, sentence: int = 0) -> Tensor:
        """Return the weights inside one graph of the batch, such as a sentence, as a dense tensor.

        The result is `(steps, heads, destinations, sources)`. Weights of parallel edges are added;
        pairs of nodes without an edge have weight zero. `sentence` is the index of the graph in the
        batch. Raise `ValueError` if there is no graph with this index.
        """
        layout = self.layout
        if not 0 <= sentence < len(layout.dst_lengths):
            raise ValueError(
                f"there is no graph {sentence} (from 0) in a batch of {len(layout.dst_lengths)}"
            )
        both = layout.dst_lengths, layout.src_lengths
        num_dst, num_src = (int(lengths[sentence]) for lengths in both)
        first_dst, first_src = (int(starts(lengths)[sentence]) for lengths in both)
        rows = torch.arange(first_dst, first_dst + num_dst, device=layout.device)
        row, source, edge = layout.in_edges(rows)
        by_edge = torch.stack([weights[edge] for weights in self.weights])
        table = by_edge.new_zeros(len(by_edge), num_dst * num_src, by_edge.shape[2])
        table = table.index_add(1, row * num_src + source - first_src, by_edge)
        return table.unflatten(1, (num_dst, num_src)).movedim(3, 1)


def edge_feature_options(
    feat: Tensor | None, layer: nn.Module | None, by_head: tuple[int, int], kind: type = nn.Linear
) -> dict[str, Any]:
    """Return arguments of `edge_attention` that add `layer` of the features `(E, edge_dim)`.

    `by_head` is `(num_heads, head_feats)`. A plain layer becomes an `edge_map`.
    """
    if (feat is None) != (layer is None):
        raise ValueError(
            "edge_attr (or edge_feat) is for layers with an edge_dim, which need it; got "
            f"{'no edge_dim' if layer is None else 'edge_dim'} and "
            f"{'no features' if feat is None else f'features of shape {tuple(feat.shape)}'}"
        )
    if feat is None or layer is None:
        return {}
    # With the weight alone, `edge_attention` need not store the mapped features of all edges.
    is_plain = type(layer) is kind and not is_hooked(layer)
    if is_plain and getattr(layer, "bias", None) is None:
        weight: Tensor = layer.weight  # type: ignore[assignment]
        return {"edge_feat": feat, "edge_map": weight.unflatten(0, by_head)}
    return {"edge_feat": layer(feat).unflatten(-1, by_head)}
