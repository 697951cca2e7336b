"""One step of the Universal Transformer, in its encoder and its decoder form."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.checks import check_frontier
from graphut.nn.attention import MultiHeadAttention, is_hooked
from graphut.nn.checks import check_feat, check_same_nodes, sources_of
from graphut.nn.context import AttentionContext, EncoderOutput, GraphContext
from graphut.nn.transition import CopyGate, Transition

NORMS = ("post", "pre")


class UniversalTransformerStep(nn.Module):
    r"""Self-attention, in a decoder cross-attention, and a transition, each with a residual.

    With `norm="post"`, as in arXiv 1807.03819, Eqs. 4 and 5:

    .. math::
        A &= \mathrm{LayerNorm}(y + \mathrm{MultiHead}(y)) \\
        C &= \mathrm{LayerNorm}(A + \mathrm{MultiHead}(A; m)) \quad\text{(decoder)} \\
        x &= \mathrm{LayerNorm}(C + \mathrm{Transition}(C))

    With `norm="pre"` the normalisations come before attention and transition, and one more
    (`readout`) after the last step.

    With `copy_gate` a node keeps its state where a learned gate is closed, as it is at first (arXiv
    2110.07732, Eqs. 3 to 6; with `norm="post"`):

    .. math::
        u = \mathrm{LayerNorm}(\mathrm{Transition}(C)), \quad g = \sigma(\mathrm{FFN}(C)), \quad
        x = g \odot u + (1 - g) \odot y

    Signals are in :math:`y`, and would add up where the gate is closed: leave them out.

    Parameters
    ----------
    attention : MultiHeadAttention
        Self-attention, or a layer of DGL in its place: `ConvAsAttention`.
    transition : PositionwiseTransition or SeparableConvTransition
        The map of each node that follows attention.
    cross_attention : MultiHeadAttention, optional
        Makes the step a decoder's: it also attends to the encoder's output `m`.
    norm : {"post", "pre"}
        Where the layers are normalised.
    dropout : float
        Probability that a feature is dropped of what attention and transition add to the residual.
    output_norm : bool
        With `norm="pre"`: have the normalisation of the last states. In a list of steps with
        weights of their own, only the last step has it.
    norm_eps : float
        Added to the variance in each normalisation.
    copy_gate : CopyGate, optional
        The gate's map of each node.

    Raises
    ------
    TypeError
        If `attention` has no `in_feats`, as a layer of DGL has not.
    ValueError
        If `norm` is unknown, or "pre" where there is a gate, or the parts have states of different
        widths.

    Examples
    --------
    >>> import torch
    >>> from graphut.topology import Complete
    >>> from graphut.nn import MultiHeadAttention, PositionwiseTransition
    >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
    >>> step(Complete().graph([3, 2]), torch.randn(5, 8)).shape
    torch.Size([5, 8])
    """

    # Set by a recurrence while it calls the step as a module. It is no argument of `forward`, since
    # hooks may copy arguments.
    loop_context: GraphContext | None = None

    def __init__(
        self,
        attention: MultiHeadAttention,
        transition: Transition,
        *,
        cross_attention: MultiHeadAttention | None = None,
        norm: str = "post",
        dropout: float = 0.0,
        output_norm: bool = True,
        norm_eps: float = 1e-5,
        copy_gate: CopyGate | None = None,
    ) -> None:
        super().__init__()
        if norm not in NORMS:
            raise ValueError(f"norm must be one of {NORMS}, got {norm!r}")
        if copy_gate is not None and norm != "post":
            raise ValueError(f"norm must be 'post' where there is a copy_gate, got {norm!r}")
        if not hasattr(attention, "in_feats"):
            raise TypeError(
                f"attention must be MultiHeadAttention or the like, got {attention!r}; a layer of "
                "DGL takes its place as ConvAsAttention(layer, feats)"
            )
        feats = attention.in_feats[1]
        self.norm = norm
        self.attention = attention
        self.cross_attention = cross_attention
        self.transition = transition
        self.copy_gate = copy_gate
        self._check_widths()
        self.dropout = nn.Dropout(dropout)
        layer_norm = partial(nn.LayerNorm, feats, eps=norm_eps)
        self.attention_norm = layer_norm()
        self.cross_norm = layer_norm() if cross_attention is not None else None
        self.transition_norm = layer_norm()
        self.output_norm = layer_norm() if norm == "pre" and output_norm else None

    def _check_widths(self) -> None:
        """Raise unless all parts have states of the same width."""
        source, width = self.attention.in_feats
        widths = {
            "sources of attention": source,
            "output of attention": self.attention.out_feats,
            "transition": self.transition.in_feats,
        }
        if self.copy_gate is not None:
            widths["copy_gate"] = self.copy_gate.in_feats
        if self.cross_attention is not None:
            widths["destinations of cross_attention"] = self.cross_attention.in_feats[1]
            widths["output of cross_attention"] = self.cross_attention.out_feats
        for name, found in widths.items():
            if found != width:
                raise ValueError(
                    "all parts of a step need states as wide: destinations of attention have "
                    f"{width} features, and the {name} {found}"
                )

    def reset_parameters(self) -> None:
        """Draw the parameters of all layers anew."""
        for layer in self.children():
            if not isinstance(layer, nn.Dropout):
                layer.reset_parameters()  # type: ignore[operator]

    @property
    def node_flops(self) -> int:
        """Floating-point operations of a step for one active node, without its edges."""
        cross = 0 if self.cross_attention is None else self.cross_attention.node_flops
        gate = 0 if self.copy_gate is None else self.copy_gate.node_flops
        return self.attention.node_flops + cross + self.transition.node_flops + gate

    def forward(
        self,
        graph: DGLGraph | EdgeLayout,
        feat: Tensor | tuple[Tensor, Tensor],
        *,
        frontier: Tensor | None = None,
        cross: tuple[DGLGraph | EdgeLayout, Tensor] | None = None,
        edge_bias: Tensor | None = None,
        edge_feat: Tensor | None = None,
        get_attention: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Do one step of all nodes, or of those in `frontier`.

        Parameters
        ----------
        graph : DGLGraph or EdgeLayout
            Self-attention's edges. Its destinations are its sources, or, in a block, the first
            of its sources.
        feat : Tensor
            `(N_src, d)`, states with their coordinate signals, `y`; or a pair of them and of their
            first `N_dst` rows, as `dgl.nn.HeteroGraphConv` has it.
        frontier : Tensor, optional
            `(A,)` sorted ids of the nodes to compute.
        cross : pair of graph and Tensor, optional
            For a decoder: the edges from the source nodes, and the encoder's output, `m`.
        edge_bias : Tensor, optional
            `(E,)` or `(E, num_heads)`, added to the scores of self-attention.
        edge_feat : Tensor, optional
            `(E, edge_dim)`, for self-attention with `edge_dim`.
        get_attention : bool
            Also return self-attention's weights, `(E, num_heads)`.

        Returns
        -------
        Tensor
            `(N_dst, d)` or `(A, d)` new states. A convolution takes 0 for the `C` of nodes outside
            the frontier.
        Tensor
            With `get_attention`: self-attention's weights, `(E, num_heads)`.

        Raises
        ------
        TypeError, ValueError
            If features do not fit the graph or the step, a node has no in-edge, or `cross` is given
            to a step without cross-attention, or not to one with it.
        """
        check_same_nodes(graph)
        feat = sources_of(feat)
        layout = as_layout(graph)
        check_feat(feat, "source", layout.num_src, self.attention.in_feats[1], self.attention)
        rows, context = feat[: layout.num_dst], self.loop_context
        if frontier is not None:
            check_frontier(layout, frontier)
        if context is None:
            context = self.context(layout.to(feat.device), cross)
            context.edge_bias, context.edge_feat = edge_bias, edge_feat
            context.get_attention, context.frontier = get_attention, frontier
            context.combined = None if frontier is None else torch.zeros_like(rows)
        if self.loop_context is not None or is_hooked(self.attention):
            context.sources = self.attention_norm(feat) if self.norm == "pre" else feat
        else:
            context.write(None, self.project(feat))
        out = self.update(rows if frontier is None else rows[frontier], context)
        return (out, context.weights[0]) if get_attention else out

    plain_forward = forward  # for `is_hooked`

    def context(
        self, layout: EdgeLayout, cross: tuple[DGLGraph | EdgeLayout, Tensor] | None
    ) -> GraphContext:
        """Return the context of a step on a graph, with the encoder's output."""
        if (cross is None) != (self.cross_attention is None):
            raise ValueError(
                "a step with cross_attention needs cross=(graph, features), and one without "
                f"takes none; got cross={'given' if cross else None}"
            )
        if cross is None or self.cross_attention is None:
            return GraphContext(layout)
        graph, source = cross
        between = as_layout(graph).to(source.device)
        width = self.cross_attention.in_feats[0]
        check_feat(source, "source", between.num_src, width, self.cross_attention)
        return GraphContext(layout, between, EncoderOutput(source))

    @property
    def is_hooked(self) -> bool:
        """True if a call of the step, or of its attention, is more than their `forward`."""
        parts = (self, self.attention, self.cross_attention)
        return any(part is not None and is_hooked(part) for part in parts)

    def takes_counts(self, context: GraphContext, like: Tensor) -> bool:
        """Return whether all attention can do with a count of rows that only the device knows."""
        pairs = ((self.attention, context.layout), (self.cross_attention, context.cross_layout))
        return all(
            layer.takes_counts(layout, like)
            for layer, layout in pairs
            if layer is not None and layout is not None
        )

    def project(self, rows: Tensor) -> Tensor:
        """Return keys and values `(R, 2 * H * D)` of rows `(R, d)`."""
        return self.attention.project(self.attention_norm(rows) if self.norm == "pre" else rows)

    @property
    def has_linear_projection(self) -> bool:
        """A signal added to every row moves all values of `project` by one vector."""
        attention = self.attention  # or a layer of DGL in its place
        if not isinstance(attention, MultiHeadAttention) or not attention.has_plain_projection:
            return False
        return self.norm == "post" and attention.has_softmax

    def value_shift(self, signal: Tensor) -> Tensor | None:
        """Return what `signal`, added to every row, adds to every value of `project`.

        It is `None` where the projection is not linear. Keys would move by one vector as well,
        but that moves all scores of a destination by one number, which softmax does not see.
        """
        if not self.has_linear_projection:
            return None
        return linear(signal, self.attention.key_value.weight.chunk(2)[1])

    def update(self, rows: Tensor, context: AttentionContext) -> Tensor:
        """Return the new states of packed rows `(A, d)` in their context."""
        pre, given = self.norm == "pre", rows
        attended = context.attend(self.attention, self.attention_norm(rows) if pre else rows)
        rows = self._add(rows, attended, self.attention_norm)
        if self.cross_attention is not None and self.cross_norm is not None:
            query = self.cross_norm(rows) if pre else rows
            rows = self._add(
                rows, context.cross_attend(self.cross_attention, query), self.cross_norm
            )
        moved = context.feed_forward(self.transition, self.transition_norm(rows) if pre else rows)
        if self.copy_gate is None:
            return self._add(rows, moved, self.transition_norm)
        return given + self.copy_gate(rows) * (self.transition_norm(moved) - given)

    def readout(self, out: Tensor) -> Tensor:
        """Normalise the last states, where the step has the normalisation for it."""
        return out if self.output_norm is None else self.output_norm(out)

    def _add(self, rows: Tensor, change: Tensor, norm: nn.LayerNorm) -> Tensor:
        total: Tensor = rows + self.dropout(change)
        if self.norm == "pre":
            return total
        return norm(total)

    def extra_repr(self) -> str:
        """Return the settings that `print` shows."""
        return f"norm={self.norm!r}"


class HookedStep:
    """A step in the adaptive loop that is called as a module, so that all its hooks act.

    States take the place of keys and values in the context, and each call projects them. With
    `checkpointed`, nothing but states is kept of a call: the backward pass does it again.
    """

    has_linear_projection = False
    is_hooked = True

    def __init__(self, step: UniversalTransformerStep, *, checkpointed: bool) -> None:
        self.step = step
        self.readout = step.readout
        self.norm = step.norm
        self.checkpointed = checkpointed

    def project(self, rows: Tensor) -> Tensor:
        """Return the states, which the call projects."""
        return rows

    def value_shift(self, signal: Tensor) -> None:
        """Return None: hooks may do anything to a signal."""

    def update(self, rows: Tensor, context: GraphContext) -> Tensor:
        """Return the new states of the frontier by a call of the step."""
        states = context.key_value
        assert states is not None
        context.work.projections[-1] = (context.num_src, None)
        if not self.checkpointed:
            return self._call(context, states)
        # What is done again gets a context as it is now, and none that will know later states:
        # those would keep the graph alive that keeps them.
        before = context.branch()

        def call(states: Tensor) -> tuple[Tensor, GraphContext]:
            own = before.branch()
            return self._call(own, states), own

        out, after = checkpoint(call, states, use_reentrant=False)
        context.join(after)
        return out

    def _call(self, context: GraphContext, states: Tensor) -> Tensor:
        self.step.loop_context = context
        try:
            out: Tensor = self.step(context.layout, states, frontier=context.frontier)
        finally:
            self.step.loop_context = None
        return out
