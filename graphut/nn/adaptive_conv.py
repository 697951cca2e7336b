"""A graph convolution with a separate depth for each node, called as in PyG and DGL."""

import inspect
from collections.abc import Iterable
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from graphut.attention import EdgeLayout, layout_from_edges
from graphut.attention.checks import check_feat, check_finite
from graphut.nn.aggregation import NeighborMean, edges_with_self_loops
from graphut.nn.checks import check_sizes
from graphut.nn.conv_adapters import ConvAsAttention, check_edge_weight
from graphut.nn.graph_call import GraphCall
from graphut.nn.layers import ByteDropout, MultiHeadAttention, PositionwiseTransition
from graphut.nn.recurrence import AdaptiveRecurrence
from graphut.nn.rules import HaltingRule
from graphut.nn.step import HaltingUnit, UniversalTransformerStep


class AdaptiveConv(GraphCall):
    r"""Repeat one convolution, for each node as often as it needs (arXiv 1807.03819).

    A linear map of the features, ReLU and dropout make the first state. One step is repeated,

    .. math::
        x \leftarrow \mathrm{Dropout}(\mathrm{ReLU}(\mathrm{BatchNorm}_t(\mathrm{Conv}(x))))

    where the convolution is a mean over the in-neighbours (`NeighborMean`), or attention over the
    in-edges plus :math:`x`, or a convolution of PyG or DGL. Its weights are the same in all steps;
    the statistics of the batch normalisation belong to the step :math:`t`. Each node takes as many
    steps as adaptive computation time (arXiv 1603.08983) gives it. See `AdaptiveRecurrence` for the
    equations.

    After a call, the attribute `ponder` is its record, and `ponder.cost` is the mean number of
    steps (with remainders) to add to the loss. A weight of 0.003 is a first choice; with 0.1 nodes
    halt after about two steps.

    In a block of DGL, only the destinations compute, and other sources keep their first states. For
    several node types use `HeteroAdaptiveConv`.

    Parameters
    ----------
    in_channels : int
        Features of a node. With -1 the first call decides.
    out_channels : int
        Features of a state, and of the output.
    heads : int, optional
        Heads of attention, among which the features are divided. Without it, the step has a mean
        over the in-neighbours.
    max_steps : int
        The largest number of steps of a node.
    conv : Module, optional
        A convolution of PyG or DGL with `out_channels` features in and out for the step, in the
        place of the mean; see `ConvAsAttention`.
    edge_dim : int, optional
        Features of an edge, which the queries of attention meet.
    dropout : float
        Dropout probability of the states after each step.
    input_dropout : float
        Dropout probability of the features.
    add_self_loops : bool, optional
        Give each node exactly one self-loop, as `GATConv` of PyG does; the features of a new one
        are 0. Without it, a node without in-edges reads nothing. The default is True with `heads`,
        and False without.
    rule : HaltingRule, optional
        The halting rule; `ACT()` by default.
    norm : {"batch", "layer", None}
        The normalisation in the step: `StepBatchNorm`, LayerNorm or none.
    residual : bool
        Add the state to the output of the convolution; True by default with `heads` only.
    feed_forward : bool
        End each step with a feed-forward layer of twice the width, its residual and its norm.
    activation : Module, optional
        The function after the norm, and after the map of the features; ReLU by default.
    halting_bias : float
        Initial bias of the halting unit, by default -2. Lower values begin with more steps.
    halted, evaluation_halted : str
        What neighbours read of a halted node, "running" by default, and in evaluation if it is to
        differ; see `AdaptiveRecurrence`. "frozen" saves the work of halted nodes, and accuracy is
        lost where they pass on what distant nodes need.

    Raises
    ------
    TypeError, ValueError
        If an argument is unknown or out of range, if `out_channels` does not divide into `heads`,
        if `conv` does not fit (`ConvAsAttention`), or, in a call, if the features do not fit.

    Examples
    --------
    >>> conv = AdaptiveConv(16, 32)
    >>> x, edge_index = torch.randn(5, 16), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    >>> out = conv(x, edge_index)  # or conv(graph, x), with a graph of DGL
    >>> loss = out.square().mean() + 0.003 * conv.ponder.cost
    >>> out.shape, conv.ponder.steps.shape
    (torch.Size([5, 32]), torch.Size([5]))
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int | None = None,
        max_steps: int = 10,
        *,
        conv: nn.Module | None = None,
        edge_dim: int | None = None,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        add_self_loops: bool | None = None,
        rule: HaltingRule | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.heads = in_channels, out_channels, heads
        self.has_self_loops = heads is not None if add_self_loops is None else add_self_loops
        check_conv_options(AdaptiveConv, [in_channels], out_channels, heads, max_steps, options)
        self.input_map: Any = linear(in_channels, out_channels)
        self.input_dropout = ByteDropout(input_dropout)
        if conv is not None and heads is not None:
            raise ValueError("a step has attention or another convolution: give heads or conv")
        if edge_dim is not None and heads is None:
            raise ValueError(
                f"edge_dim={edge_dim} is for attention of graphut: give heads=4 too, without conv"
            )
        attention: Any = NeighborMean(out_channels)
        if conv is not None:
            attention = ConvAsAttention(conv, out_channels)
        elif heads is not None:
            attention = MultiHeadAttention(
                out_channels, heads, edge_dim=edge_dim, allow_zero_in_degree=True
            )
        options = {"residual": heads is not None, **options}
        self.recurrence = make_recurrence(attention, max_steps, dropout, rule, **options)

    def reset_parameters(self) -> None:
        """Draw new parameters in all layers."""
        self.input_map.reset_parameters()
        self.recurrence.reset_parameters()

    def forward(
        self,
        x: Any,
        edge_index: Any,
        edge_attr: Tensor | None = None,
        *,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """Return the output states, `(N_dst, out_channels)`.

        Parameters
        ----------
        x, edge_index
            Of PyG: features `(N, in_channels)`, and edges `(2, E)`, a new tensor after a change
            through numpy or `.data`; or of DGL: a graph or block (or an `EdgeLayout`), and the
            features of its sources. `from_edge_index(edge_index, N, batch=batch)` returns a layout
            of several graphs, for the rule `Global`.
        edge_attr : Tensor, optional
            `(E, edge_dim)`, features of the edges.
        edge_weight : Tensor, optional
            `(E,)`, factors of the attention weights after the softmax, or what `conv`, PyG's
            `GCNConv` or DGL's `GraphConv`, reads. A new self-loop has the weight 1.
        """
        layout, x = self.read(x, edge_index)
        step: Any = self.recurrence.steps[0]
        width = self.input_map.in_features or x.shape[-1]  # 0 before the first call
        check_feat(x, "source", layout.num_src, width, self.input_map)
        edge_dim: Any = getattr(step.attention, "edge_dim", None)
        if edge_attr is not None:
            check_finite(edge_attr=edge_attr)
            if edge_dim is None:
                raise ValueError(
                    "the layer reads no features of edges, but edge_attr is given; "
                    f"AdaptiveConv({self.in_channels}, {self.out_channels}, heads={self.heads or 1}"
                    ", edge_dim=3) reads (E, 3); weights of edges are given as edge_weight=..."
                )
            if edge_attr.shape != (layout.num_edges, edge_dim):
                raise ValueError(
                    f"edge_attr must be (E, edge_dim) = ({layout.num_edges}, {edge_dim}), got "
                    f"shape {tuple(edge_attr.shape)}"
                )
        if edge_weight is not None:
            check_edge_weight(layout, edge_weight)
        feat = step.activation(self.input_map(self.input_dropout(x)))
        if self.has_self_loops:
            layout, order = layout.cached(_with_self_loops)
            if edge_attr is not None:
                edge_attr = torch.cat([edge_attr, edge_attr.new_zeros(1, edge_dim)])[order]
            if edge_weight is not None:
                edge_weight = torch.cat([edge_weight, edge_weight.new_ones(1)])[order]
        by_edge = {"edge_feat": edge_attr, "edge_weight": edge_weight}
        out, self.ponder, *_ = self.recurrence(layout, feat, **by_edge)
        return out

    def __repr__(self) -> str:
        attention: Any = self.recurrence.steps[0].attention
        kind = "" if self.heads is None else f", heads={self.heads}"
        if isinstance(attention, ConvAsAttention):
            kind = f", conv={type(attention.conv).__name__}"
        sizes = f"{self.in_channels}, {self.out_channels}{kind}"
        return f"{type(self).__name__}({sizes}, max_steps={self.recurrence.max_steps})"


def check_conv_options(
    conv: type[nn.Module],
    in_channels: Iterable[int],
    out_channels: int,
    heads: int | None,
    max_steps: int,
    options: Iterable[str],
) -> None:
    """Raise an error if an argument of a convolution is unknown or out of range."""
    known: Any = make_recurrence.__kwdefaults__
    unknown = [name for name in options if name not in known]
    if unknown:
        names = [*[*inspect.signature(conv).parameters][:-1], *known]
        raise TypeError(f"unknown argument {unknown[0]!r}; the arguments are {names}")
    check_sizes(out_channels=out_channels, heads=heads, max_steps=max_steps)
    for size in in_channels:
        if not isinstance(size, Integral) or (size != -1 and size < 1):
            raise ValueError(
                f"in_channels must be at least 1, or -1 for the first call to decide, got {size!r}"
            )


def make_recurrence(
    attention: Any,
    max_steps: int,
    dropout: float,
    rule: HaltingRule | None,
    *,
    norm: str | None = "batch",
    residual: bool = True,
    feed_forward: bool = False,
    activation: nn.Module | None = None,
    halting_bias: float = -2.0,
    halted: str = "running",
    evaluation_halted: str | None = None,
) -> AdaptiveRecurrence:
    """Return a recurrence without signals for graphs; see `AdaptiveConv` for the options."""
    if norm not in ("batch", "layer", None):
        raise ValueError(f"norm must be 'batch', 'layer' or None, got {norm!r}")
    feats = attention.out_feats
    step = UniversalTransformerStep(
        attention,
        PositionwiseTransition(feats, 2 * feats, dropout=dropout) if feed_forward else None,
        norm=None if norm is None else "post",
        residual=residual,
        batch_norm=max_steps if norm == "batch" else None,
        activation=nn.Sequential(
            nn.ReLU() if activation is None else activation, ByteDropout(dropout)
        ),
    )
    uses_probability = getattr(rule, "uses_probability", True)
    return AdaptiveRecurrence(
        step,
        HaltingUnit(feats, bias_init=halting_bias) if uses_probability else None,
        rule=rule,
        max_steps=max_steps,
        halted=halted,
        evaluation_halted=evaluation_halted,
        position_signal=None,
        step_signal=None,
    )


def linear(in_channels: int, out_channels: int) -> nn.Linear:
    """Return a linear map; with -1, the first call decides the number of its inputs."""
    return (
        nn.LazyLinear(out_channels) if in_channels == -1 else nn.Linear(in_channels, out_channels)
    )


def _with_self_loops(layout: EdgeLayout) -> tuple[EdgeLayout, Tensor]:
    """Return a layout with one self-loop at each destination, and the old ids of its edges."""
    source, target, order = edges_with_self_loops(layout)
    sizes: Any = {"num_src": layout.num_src, "num_dst": layout.num_dst}
    lengths: Any = {"src_lengths": layout.src_lengths, "dst_lengths": layout.dst_lengths}
    return layout_from_edges(source, target, **sizes, **lengths), order
