"""Messages that a node aggregates by maximum or by sum, alone or beside attention."""

import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from graphut.attention import EdgeLayout
from graphut.attention.checks import check_finite
from graphut.attention.ragged import row_maxima, row_sums
from graphut.attention.tracing import is_intercepted, outside_autocast
from graphut.nn.aggregation import Aggregation, neighbor_sum
from graphut.nn.layers import MultiHeadAttention

AGGREGATORS = ("max", "sum")


class MessageAggregation(Aggregation):
    r"""Maximum and sum of messages from in-neighbours, added to attention if it is given.

    .. math::
        \mathrm{out}_i = \mathrm{Attention}(y)_i
            + W^O \, [\, \max_{j \in E(i)} \mathrm{relu}(W^{max} y_j) \;\Vert\;
            \log(1 + \sum_{j \in E(i)} \mathrm{relu}(W^{sum} y_j)) \,] + b

    Both aggregates are 0 for a node without in-edges. Sums count neighbours, which attention cannot
    do; the logarithm keeps them in range. The gradient of a maximum is split evenly over the
    messages that reach it. Several aggregators are combined as in "Principal Neighbourhood
    Aggregation" (arXiv 2004.05718). The layer replaces attention in `UniversalTransformerStep`.

    Parameters
    ----------
    aggregators : sequence of {"max", "sum"}
        One or both.
    attention : MultiHeadAttention, optional
        Attention to add, with `feats` features in and out. Biases and features of edges are used
        in the attention only.

    Raises
    ------
    ValueError
        If an aggregator is unknown, or if the attention does not have `feats` features.

    Examples
    --------
    >>> from graphut._dgl import dgl
    >>> messages = MessageAggregation(8, ["max", "sum"], attention=MultiHeadAttention(8, 2))
    >>> messages(dgl.graph(([0, 1, 2], [1, 0, 2])), torch.randn(3, 8)).shape
    torch.Size([3, 8])
    """

    def __init__(
        self,
        feats: int,
        aggregators: Sequence[str] = AGGREGATORS,
        *,
        attention: MultiHeadAttention | None = None,
    ) -> None:
        super().__init__()
        unknown = [name for name in aggregators if name not in AGGREGATORS]
        if unknown or not aggregators or len(set(aggregators)) < len(aggregators):
            raise ValueError(
                f"aggregators must be one or both of {AGGREGATORS}, got {tuple(aggregators)}"
            )
        if attention is not None and {*attention.in_feats, attention.out_feats} != {feats}:
            raise ValueError(
                f"attention must have {feats} features in and out, but has in_feats="
                f"{attention.in_feats} and out_feats={attention.out_feats}"
            )
        self.in_feats, self.out_feats = (feats, feats), feats
        self.aggregators = tuple(name for name in AGGREGATORS if name in aggregators)
        self.attention = attention
        width = len(self.aggregators) * feats
        self.node_flops = self.key_value_flops = 2 * feats * width
        self.edge_flops = width
        if attention is not None:
            self.node_flops += attention.node_flops
            self.key_value_flops += attention.key_value_flops
            self.edge_flops += attention.edge_flops
        self.message = nn.Linear(feats, width)
        self.output = nn.Linear(width, feats, bias=attention is None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters: Xavier uniform for each linear map, zero for biases."""
        for weight in (*self.message.weight.split(self.out_feats), self.output.weight):
            nn.init.xavier_uniform_(weight)
        for layer in (self.message, self.output):
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        if self.attention is not None:
            self.attention.reset_parameters()

    def project(self, feat_src: Tensor, *types: Any) -> Tensor:
        """Return keys, values and messages of all sources as one tensor, `(N_src, total width)`.

        Messages are the ReLU terms of the class's formula. Without attention, return only these.
        """
        messages: Tensor = self.message(feat_src).relu()
        if self.attention is None:
            return messages
        return torch.cat([self.attention.project(feat_src), messages], 1)

    def attend(
        self,
        layout: EdgeLayout,
        rows: Tensor,
        stored: Tensor,
        *,
        frontier: Tensor | None = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output, `(A, feats)`, and any weights; options as in `MultiHeadAttention`."""
        if options.pop("edge_weight", None) is not None:
            raise ValueError("messages have no edge_weight: use MultiHeadAttention alone")
        width = self.message.out_features
        messages = self._aggregate(layout, stored[:, -width:], frontier)
        if self.attention is not None:
            keys = stored[:, :-width]
            result = self.attention(layout, rows, stored=keys, frontier=frontier, **options)
            out, weights = result if isinstance(result, tuple) else (result, None)
            return out + messages, weights
        self.refuse("MessageAggregation without attention", options)
        return messages, None

    def _aggregate(self, layout: EdgeLayout, messages: Tensor, frontier: Tensor | None) -> Tensor:
        """Return a linear map of the maxima and sums of messages `(N_src, W)`: `(A, feats)`."""
        check_finite(messages=messages)
        reduced = []
        with outside_autocast(messages.device.type):  # sums are float32 or wider
            wide = messages.to(torch.promote_types(messages.dtype, torch.float32))
            for name, sent in zip(self.aggregators, wide.split(self.out_feats, 1), strict=True):
                if name == "max":
                    reduced.append(neighbor_max(layout, sent, frontier))
                else:
                    total = neighbor_sum(layout, sent, frontier=frontier)
                    check_finite(message_sum=total)
                    reduced.append(total.log1p())
        return self.output(torch.cat(reduced, 1).to(messages.dtype))

    def extra_repr(self) -> str:
        return f"feats={self.out_feats}, aggregators={self.aggregators}"


def neighbor_max(layout: EdgeLayout, feat: Tensor, frontier: Tensor | None = None) -> Tensor:
    """Return the maximum of non-negative features over the in-edges, as `neighbor_sum` the sum.

    The gradient is split evenly over equal maxima.
    """
    row, source, _ = layout.in_edges(frontier)
    num_rows = layout.num_dst if frontier is None else len(frontier)
    if feat.device.type != "cpu" or is_intercepted() or not len(row):
        return row_maxima(feat[source], row, num_rows).clamp_min(0.0)
    top: Tensor = _NeighborMax.apply(feat, row, source, num_rows)  # type: ignore[no-untyped-call]
    return top


@cache
def _spend_beta_warning() -> None:
    """Make a first CSR tensor, of which torch warns once in a process that they are new."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.eye(1).to_sparse_csr()


class _NeighborMax(torch.autograd.Function):
    """The maximum by a sparse product, in which no tensor has the features of all edges."""

    @staticmethod
    def forward(ctx: Any, feat: Tensor, row: Tensor, source: Tensor, num_rows: int) -> Tensor:
        _spend_beta_warning()
        starts = torch.bincount(row, minlength=num_rows).cumsum(0)
        starts = torch.cat([starts.new_zeros(1), starts])
        ones, size = feat.new_ones(len(row)), (num_rows, len(feat))
        edges = torch.sparse_csr_tensor(starts, source, ones, size, check_invariants=False)
        top: Tensor = torch.sparse.mm(edges, feat, "amax")
        ctx.save_for_backward(feat, top, row, source)
        return top

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        feat, top, row, source = ctx.saved_tensors
        ties = (feat.index_select(0, source) == top.index_select(0, row)).to(grad.dtype)
        share = (grad / row_sums(ties, row, len(top))).index_select(0, row)
        return row_sums(ties * share, source, len(feat)), None, None, None
