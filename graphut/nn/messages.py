"""Messages that a node aggregates by maximum or by sum, alone or beside attention."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph, dgl, is_installed
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.argument_checks import check_finite
from graphut.attention.first_derivatives import differentiable_once
from graphut.attention.neighbor_sums import neighbor_sum
from graphut.attention.ragged import row_sums
from graphut.attention.tracing import is_intercepted, outside_autocast
from graphut.nn.attention import MultiHeadAttention
from graphut.nn.input_checks import check_feat, check_same_nodes, destination_rows

AGGREGATORS = ("max", "sum")
BACKENDS = ("auto", "torch", "dgl")
# Edges times features above which it pays to build a DGL graph of a frontier.
_LARGE = 1 << 18


class MessageAggregation(nn.Module):
    r"""Maximum and sum of messages from in-neighbours, added to attention if it is given.

    .. math::
        \mathrm{out}_i = \mathrm{Attention}(y)_i
            + W^O \, [\, \max_{j \in E(i)} \mathrm{relu}(W^{max} y_j) \;\Vert\;
            \log(1 + \sum_{j \in E(i)} \mathrm{relu}(W^{sum} y_j)) \,] + b

    Both aggregates are 0 for a node without in-edges. Sums count neighbours, which attention cannot
    do; the logarithm keeps them in range. The gradient of a maximum is split evenly over the
    messages that reach it. Several aggregators are combined as in "Principal Neighbourhood
    Aggregation" (arXiv 2004.05718). The layer replaces attention in `UniversalTransformerStep`.

    With `edge_dim`, the message from :math:`j` to :math:`i` is :math:`\mathrm{relu}(W y_j + U
    e_{ij})`, where :math:`e_{ij}` are the features of the edge. A maximum of such messages can
    represent a step of the Bellman-Ford algorithm, :math:`\min_j d_j + w_{ij}`.

    Parameters
    ----------
    aggregators : sequence of {"max", "sum"}
        One or both.
    attention : MultiHeadAttention, optional
        Attention to add, with `feats` features in and out. Edge biases are used in the attention
        only.
    edge_dim : int, optional
        Features of an edge, `edge_feat` in each call, that messages use; an attention needs the
        same `edge_dim`. Without it, edge features are used in the attention only.
    backend : {"auto", "torch", "dgl"}
        For maxima: "torch" gathers the messages of all edges. "dgl" uses DGL's kernels, on CPUs.
        "auto" chooses "dgl" for many edges, if DGL is installed. Messages with `edge_dim` always
        use "torch". Sums use `neighbor_sum`, a sparse product.

    Raises
    ------
    ValueError
        If an aggregator or the backend is unknown, if `edge_dim` is below 1, or if the attention
        does not have `feats` features and the same `edge_dim`.

    Examples
    --------
    >>> from graphut._dgl import dgl
    >>> from graphut.nn import PositionwiseTransition, UniversalTransformerStep
    >>> messages = MessageAggregation(8, ["max", "sum"], attention=MultiHeadAttention(8, 2))
    >>> step = UniversalTransformerStep(messages, PositionwiseTransition(8, 32))
    >>> step(dgl.graph(([0, 1, 2], [1, 0, 2])), torch.randn(3, 8)).shape
    torch.Size([3, 8])
    """

    def __init__(
        self,
        feats: int,
        aggregators: Sequence[str] = AGGREGATORS,
        *,
        attention: MultiHeadAttention | None = None,
        edge_dim: int | None = None,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        unknown = [name for name in aggregators if name not in AGGREGATORS]
        if unknown or not aggregators or len(set(aggregators)) < len(aggregators):
            raise ValueError(
                f"aggregators must be one or both of {AGGREGATORS}, got {tuple(aggregators)}"
            )
        if backend not in BACKENDS:
            raise ValueError(f"backend must be one of {BACKENDS}, got {backend!r}")
        if attention is not None and {*attention.in_feats, attention.out_feats} != {feats}:
            raise ValueError(
                f"attention must have {feats} features in and out, but has in_feats="
                f"{attention.in_feats} and out_feats={attention.out_feats}"
            )
        if edge_dim is not None and edge_dim < 1:
            raise ValueError(f"edge_dim must be at least 1, got {edge_dim}")
        if edge_dim is not None and attention is not None and attention.edge_dim != edge_dim:
            raise ValueError(
                f"attention must have edge_dim={edge_dim} too, but has {attention.edge_dim}"
            )
        self.in_feats, self.out_feats = (feats, feats), feats
        self.aggregators = tuple(name for name in AGGREGATORS if name in aggregators)
        self.backend = backend
        self.attention = attention
        self.relative = attention is not None and attention.relative is not None
        width = len(self.aggregators) * feats
        self.node_flops = self.key_value_flops = 2 * feats * width
        self.edge_flops = width + 2 * width * (edge_dim or 0)
        if attention is not None:
            self.node_flops += attention.node_flops
            self.key_value_flops += attention.key_value_flops
            self.edge_flops += attention.edge_flops
        self.message = nn.Linear(feats, width)
        self.output = nn.Linear(width, feats, bias=attention is None)
        self.edge = None if edge_dim is None else nn.Linear(edge_dim, width, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters: Xavier uniform for each linear map, zero for biases."""
        layers = [self.message] if self.edge is None else [self.message, self.edge]
        by_aggregator = [part for layer in layers for part in layer.weight.split(self.out_feats)]
        for weight in (*by_aggregator, self.output.weight):
            nn.init.xavier_uniform_(weight)
        for layer in (self.message, self.output):
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        if self.attention is not None:
            self.attention.reset_parameters()

    def forward(
        self,
        graph: DGLGraph | EdgeLayout,
        feat: Tensor,
        *,
        frontier: Tensor | None = None,
        stored: Tensor | None = None,
        **options: Any,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Aggregate messages for all destinations, or for the destinations in `frontier`.

        Arguments and results are as in `MultiHeadAttention.forward`; `feat` must be one tensor.
        """
        layout, rows = as_layout(graph), feat
        if stored is None:
            check_feat(feat, "source", layout.num_src, self.in_feats[0], self)
            rows, stored = destination_rows(layout, feat, frontier), self.project(feat)
            if self.attention is not None:
                check_same_nodes(graph, "messages beside attention need a graph with one node type")
        out, weights = self.attend(layout, rows, stored, frontier=frontier, **options)
        return out if weights is None else (out, weights)

    def project(self, feat_src: Tensor) -> Tensor:
        """Return keys, values and messages of all sources as one tensor, `(N_src, total width)`.

        Messages are the ReLU terms of the class's formula; with `edge_dim`, only :math:`W y_j`.
        Without attention, return only these.
        """
        messages = self._messages(feat_src)
        if self.attention is None:
            return messages
        return torch.cat([self.attention.project(feat_src), messages], 1)

    def _messages(self, feat_src: Tensor) -> Tensor:
        messages: Tensor = self.message(feat_src)
        return messages.relu() if self.edge is None else messages

    def attend(
        self,
        layout: EdgeLayout,
        rows: Tensor,
        projected: Tensor,
        *,
        frontier: Tensor | None = None,
        value_shift: None = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output, `(A, feats)`, and any weights; see `MultiHeadAttention.attend`."""
        width = self.message.out_features
        messages = self.aggregate(layout, projected[:, -width:], frontier, _edge_feat(options))
        if self.attention is not None:
            keys = projected[:, :-width]
            result = self.attention(layout, rows, stored=keys, frontier=frontier, **options)
            out, weights = result if isinstance(result, tuple) else (result, None)
            return out + messages, weights
        unread = options if self.edge is None else {**options, "edge_feat": None}
        for name, value in unread.items():
            if value is not None and value is not False:
                raise ValueError(f"messages have no {name}: give MessageAggregation an attention")
        return messages, None

    def aggregate(
        self,
        layout: EdgeLayout,
        messages: Tensor,
        frontier: Tensor | None = None,
        edge_feat: Tensor | None = None,
    ) -> Tensor:
        """Return a linear map of the maxima and sums of messages `(N_src, W)`: `(A, feats)`."""
        check_finite(messages=messages)
        if self.edge is not None:
            wanted = (layout.num_edges, self.edge.in_features)
            if edge_feat is None or edge_feat.shape != wanted:
                shape = None if edge_feat is None else tuple(edge_feat.shape)
                raise ValueError(f"edge_feat must have shape {wanted} for messages, got {shape}")
            check_finite(edge_feat=edge_feat)
            row, source, edge = layout.in_edges(frontier)
            messages = (messages[source] + self.edge(edge_feat[edge])).relu()
        parts = dict(zip(self.aggregators, messages.split(self.out_feats, 1), strict=True))
        with outside_autocast(messages.device.type):  # sums are float32 or wider
            if self.edge is None:
                reduced = reduce_messages(layout, parts, frontier, self.backend)
            else:
                num_rows = layout.num_dst if frontier is None else len(frontier)
                reduced = reduce_rows(parts, row, num_rows)
            if "sum" in reduced:
                check_finite(message_sum=reduced["sum"])
                reduced["sum"] = reduced["sum"].log1p()
            joined = torch.cat([reduced[name] for name in self.aggregators], 1)
        return self.output(joined.to(messages.dtype))

    def extra_repr(self) -> str:
        return f"feats={self.out_feats}, aggregators={self.aggregators}, backend={self.backend!r}"


def _edge_feat(options: dict[str, Any]) -> Tensor | None:
    """Return the edge features among the options of attention; refuse edge weights."""
    if options.get("edge_weight") is not None:
        raise ValueError("messages have no edge_weight: use MultiHeadAttention alone")
    return options.get("edge_feat")


def reduce_messages(
    layout: EdgeLayout,
    messages: dict[str, Tensor],
    frontier: Tensor | None = None,
    backend: str = "auto",
) -> dict[str, Tensor]:
    """Return the maximum or sum of messages over the in-edges of each destination.

    `messages` are non-negative messages, `(N_src, D)`, by aggregator. The results, `(A, D)` by
    aggregator, are float32 or wider, and 0 for nodes without in-edges.
    """
    reduced = {}
    if "sum" in messages:
        reduced["sum"] = neighbor_sum(layout, messages["sum"], frontier=frontier)
    if "max" in messages:
        reduced["max"] = _maximum(layout, messages["max"], frontier, backend)
    return reduced


def _maximum(layout: EdgeLayout, sent: Tensor, frontier: Tensor | None, backend: str) -> Tensor:
    is_plain = sent.device.type == "cpu" and not is_intercepted()
    by_dgl = is_installed and is_plain and backend != "torch"
    if by_dgl and frontier is None and layout.num_edges:
        return _maximum_by_dgl(layout.cached(_as_dgl), sent)
    row, source, _ = layout.in_edges(frontier)
    num_rows = layout.num_dst if frontier is None else len(frontier)
    is_large = backend == "dgl" or source.numel() * sent.shape[1] >= _LARGE
    if by_dgl and is_large and source.numel():
        return _maximum_by_dgl(dgl.create_block((source, row), layout.num_src, num_rows), sent)
    return reduce_rows({"max": sent[source]}, row, num_rows)["max"]


def reduce_rows(messages: dict[str, Tensor], row: Tensor, num_rows: int) -> dict[str, Tensor]:
    """Compute `reduce_messages` for messages of edges, `(E, D)`, with destinations `(E,)`."""
    reduced = {}
    for name, part in messages.items():
        sent = _widen(part)
        if name == "sum":
            reduced[name] = row_sums(sent, row, num_rows)
        else:
            zeros, index = sent.new_zeros(num_rows, sent.shape[1]), row[:, None].expand_as(sent)
            reduced[name] = zeros.scatter_reduce(0, index, sent, "amax")
    return reduced


def _widen(messages: Tensor) -> Tensor:
    return messages.to(torch.promote_types(messages.dtype, torch.float32))


def _as_dgl(layout: EdgeLayout) -> Any:
    row, source, _ = layout.in_edges()
    return dgl.create_block((source, row), layout.num_src, layout.num_dst)


def _maximum_by_dgl(graph: Any, sent: Tensor) -> Tensor:
    (table,) = differentiable_once(_widen(sent))
    top: Tensor = _MaximumByDGL.apply(graph, table)  # type: ignore[no-untyped-call]
    return top


class _MaximumByDGL(torch.autograd.Function):
    """Maximum over in-edges; DGL's own gradient goes to only one of several equal maxima."""

    @staticmethod
    def forward(ctx: Any, graph: Any, table: Tensor) -> Tensor:
        top: Tensor = dgl.ops.copy_u_max(graph, table).clamp_min(0.0)  # -inf without in-edges
        ctx.graph = graph
        ctx.save_for_backward(table, top)
        return top

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        table, top = ctx.saved_tensors
        source, row = ctx.graph.edges()
        ties = (table.index_select(0, source) == top.index_select(0, row)).to(grad.dtype)
        share = (grad / row_sums(ties, row, len(top))).index_select(0, row)
        return None, row_sums(ties * share, source, len(table))
