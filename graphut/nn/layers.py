"""The layers of a step: attention, transition, batch normalisation by steps, and dropout."""

from math import log1p
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, dropout, gelu, linear
from torch.nn.modules.module import (
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_forward_hooks,
    _global_forward_pre_hooks,
)

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout, edge_attention, kernel_library
from graphut.attention.backend import AttentionCall
from graphut.attention.checks import check_feat, check_frontier, check_nonempty_rows
from graphut.attention.key_value_memory import KeyValueMemory
from graphut.attention.registry import TRITON, choose
from graphut.nn.checks import PASS_A_PAIR, check_attention_options, check_same_nodes

# In-degree at which `scale_by_degree` has no effect at first: the mean of causal attention in
# sentences of up to 40 tokens.
USUAL_DEGREE = 20

_CALL = nn.Module.__call__
_PLAIN = {nn.Linear, nn.LayerNorm, nn.ReLU, nn.GELU, nn.Dropout, nn.Identity}


def call_layer(layer: Any, rows: Tensor) -> Tensor:
    """Return `layer(rows)`, without the cost of `__call__` for layers of torch without hooks.

    That cost is as much as a product of a few rows, and a step calls about fifteen layers.
    """
    kind, own = type(layer), layer.__dict__
    if kind in _PLAIN and not (
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or "forward" in own
        or _global_forward_hooks
        or _global_forward_pre_hooks
        or _global_backward_hooks
        or _global_backward_pre_hooks
        or nn.Module.__call__ is not _CALL  # a tool traces modules
    ):
        weights = own["_parameters"]  # an optimizer or a tool may replace them between calls
        try:
            if kind is nn.Linear:
                return linear(rows, weights["weight"], weights["bias"])
            if kind is nn.LayerNorm:
                shape, eps = own["normalized_shape"], own["eps"]
                return torch.layer_norm(rows, shape, weights["weight"], weights["bias"], eps)
            if kind is nn.ReLU:
                return torch.relu_(rows) if own["inplace"] else torch.relu(rows)
            if kind is nn.GELU:
                return gelu(rows, approximate=own["approximate"])
            if kind is nn.Identity or not (own["training"] and own["p"]):
                return rows
            return dropout(rows, own["p"])
        except KeyError:  # a tool has replaced a parameter by another kind of attribute
            pass
    called: Tensor = layer(rows)
    return called


def is_hooked(layer: nn.Module) -> bool:
    """Return whether `layer` has hooks, or a `forward` set on the instance."""
    own = vars(layer)
    hooks = own["_forward_hooks"] or own["_forward_pre_hooks"]
    hooks = hooks or own["_backward_hooks"] or own["_backward_pre_hooks"]
    return bool(hooks) or "forward" in own


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
        if by_edge or layout.has_empty_rows or kernel_library.LIBRARY is None:
            return False
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else like.dtype
        # The result of another projection may be used elsewhere too.
        return dtype in kernel_library.DTYPES and self.has_plain_projection

    def uses_triton(self, layout: EdgeLayout, like: Tensor) -> bool:
        """Return whether Triton kernels compute attention, without a check on the host.

        `like` has the device and the dtype of the features. Raise `ValueError` if a destination has
        no in-edges and `allow_zero_in_degree` is false.
        """
        if not like.is_cuda:
            return False
        is_cast = torch.is_autocast_enabled("cuda")
        dtype = torch.get_autocast_dtype("cuda") if is_cast else like.dtype
        rows = like.new_empty(0, self.num_heads, 1, dtype=dtype)
        call = AttentionCall(layout=layout, query=rows, key=rows, value=rows)
        if choose(self.backend, call) is not TRITON:
            return False
        if not self.allow_zero_in_degree:
            check_nonempty_rows(call)
        return True

    def _scaled(self, query: Tensor, layout: EdgeLayout, frontier: Tensor | None) -> Tensor:
        """Return queries times the factors of `scale_by_degree`, for any backend."""
        assert self.degree_scale is not None
        degrees = layout.in_degrees if frontier is None else layout.in_degrees[frontier]
        factor = degrees.to(self.degree_scale.dtype).log1p()[:, None] * self.degree_scale
        return (query * factor[:, :, None]).to(query.dtype)

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}, attn_drop={self.attn_drop}, backend={self.backend!r}"


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


class Transition(nn.Module):
    """Base class of transitions (feed-forward layers): linear, activation, dropout, linear."""

    def __init__(
        self, in_feats: int, hidden_feats: int, activation: nn.Module | None, dropout: float
    ) -> None:
        super().__init__()
        self.in_feats = in_feats
        #: Floating-point operations for one node.
        self.node_flops = 4 * in_feats * hidden_feats
        self.layers = nn.Sequential(
            nn.Linear(in_feats, hidden_feats),
            nn.ReLU() if activation is None else activation,
            nn.Dropout(dropout),
            nn.Linear(hidden_feats, in_feats),
        )

    def reset_parameters(self) -> None:
        """Draw new parameters: Xavier uniform for linear maps, zero for biases."""
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)


class PositionwiseTransition(Transition):
    r"""Feed-forward network with one hidden layer, applied to each node separately.

    .. math:: \mathrm{Transition}(c) = W_2 \, \phi(W_1 c + b_1) + b_2

    The fully-connected transition of the Universal Transformer (arXiv 1807.03819, section 2.1).

    Parameters
    ----------
    in_feats, hidden_feats : int
        Features of a node, in the input and in the output, and of the hidden layer.
    activation : Module, optional
        The activation; ReLU by default.
    dropout : float
        Dropout probability of the hidden features.

    Examples
    --------
    >>> from graphut.topology import Complete
    >>> PositionwiseTransition(8, 32)(Complete().graph([3]), torch.randn(3, 8)).shape
    torch.Size([3, 8])
    """

    def __init__(
        self,
        in_feats: int,
        hidden_feats: int,
        *,
        activation: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(in_feats, hidden_feats, activation, dropout)
        self.reset_parameters()

    def forward(self, graph: DGLGraph | EdgeLayout, feat: Tensor) -> Tensor:
        """Apply the network to features `(N, in_feats)`.

        The graph is ignored, because the result for a node does not depend on other nodes.
        """
        layers: Any = self._modules["layers"]
        if type(layers) is not nn.Sequential or is_hooked(layers):
            out: Tensor = layers(feat)
            return out
        for layer in layers._modules.values():
            feat = call_layer(layer, feat)
        return feat


class ByteDropout(nn.Module):
    """Dropout with a probability rounded to a multiple of 1/256, faster than torch's on a CPU.

    torch draws a random number for each entry. This module draws one for eight entries, which takes
    a quarter of the time of `torch.nn.Dropout`, and as long as a matrix product with 32 features
    in the step of a graph layer. Entries that stay are divided by the exact share that stays. On
    other devices it is `torch.nn.Dropout`.

    Examples
    --------
    >>> ByteDropout(0.5)(torch.ones(1000)).unique()
    tensor([0., 2.])
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise ValueError(f"the probability of dropout must lie in [0, 1), got {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not (self.training and self.p):
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return dropout(x, self.p)
        least = min(max(1, round(256 * self.p)), 255)
        words = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
        kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= least
        return x * (kept * (256 / (256 - least))).to(x.dtype)

    def extra_repr(self) -> str:
        return f"p={self.p:g}"


class StepBatchNorm(nn.Module):
    r"""Batch normalisation whose statistics belong to a step (arXiv 1603.09025).

    .. math::
        y = \gamma_t \frac{x - \mu_t}{\sqrt{\sigma_t^2 + \epsilon}} + \beta_t

    In training, :math:`\mu_t` and :math:`\sigma_t^2` are the mean and the (biased) variance of the
    rows that step :math:`t` computes; with fewer than two rows they are the running ones. In
    evaluation they are the running ones of step :math:`\min(t, T)`, so that a row does not depend
    on others, and the frontier does not matter. Scale and shift belong to each step too, which
    costs `2 * num_features` weights a step.

    LayerNorm cannot remove what all nodes share, and averages over neighbours let it grow from step
    to step. Batch normalisation removes it.

    Among several processes, each uses the rows that it computes itself.

    Parameters
    ----------
    num_features : int
        Features of a row.
    max_steps : int
        The number of steps with statistics of their own, :math:`T`.
    eps : float
        Added to the variance.
    momentum : float
        Share of a new value in the running statistics.

    Examples
    --------
    >>> norm = StepBatchNorm(8, max_steps=3)
    >>> norm(torch.randn(5, 8), 2).mean(0).abs().max() < 1e-6
    tensor(True)
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self, num_features: int, max_steps: int, *, eps: float = 1e-5, momentum: float = 0.1
    ) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(max_steps, num_features))
        self.bias = nn.Parameter(torch.zeros(max_steps, num_features))
        self.register_buffer("running_mean", torch.zeros(max_steps, num_features))
        self.register_buffer("running_var", torch.ones(max_steps, num_features))

    def reset_parameters(self) -> None:
        """Reset scale, shift and running statistics."""
        for ones, zeros in ((self.weight, self.bias), (self.running_var, self.running_mean)):
            nn.init.ones_(ones)
            nn.init.zeros_(zeros)

    def forward(self, rows: Tensor, step: int) -> Tensor:
        """Return the normalised rows, `(A, num_features)`, of step `step`, counted from 1."""
        t = min(step, len(self.weight)) - 1
        running = self.running_mean[t], self.running_var[t]
        is_measured = self.training and len(rows) > 1
        momentum = self.momentum if is_measured else 0.0
        affine = self.weight[t], self.bias[t]
        return batch_norm(rows, *running, *affine, is_measured, momentum, self.eps)

    def extra_repr(self) -> str:
        steps, features = self.weight.shape
        return f"{features}, max_steps={steps}, eps={self.eps:g}, momentum={self.momentum:g}"
