"""Propagation without weights, with a separate number of steps for each node."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from graphut.attention import EdgeLayout, layout_from_edges
from graphut.attention.checks import check_feat
from graphut.attention.ragged import row_sums
from graphut.nn.aggregation import Aggregation, edges_with_self_loops, neighbor_sum
from graphut.nn.checks import check_probability
from graphut.nn.conv_adapters import check_edge_weight
from graphut.nn.graph_call import GraphCall
from graphut.nn.recurrence import AdaptiveRecurrence
from graphut.nn.rules import ACT, HaltingRule
from graphut.nn.step import HaltingUnit, UniversalTransformerStep


class AdaptivePropagation(GraphCall):
    r"""Propagate features along edges until each node halts, without weights.

    .. math::
        x^{t+1} = (1 - \alpha) A x^t + \alpha x^0, \qquad A = D^{-1/2} (W + I) D^{-1/2}

    where :math:`W` has the weights of the edges, and :math:`D` the sums of the weights into a node.
    Each node has exactly one self-loop; one among the edges keeps its weight instead of 1.
    With the rule `FixedDepth` this is the propagation of "Predict then Propagate" (APPNP, arXiv
    1810.05997), PyG's `APPNP(K, alpha)`. With `alpha=0` and `ACT(halt_from="output",
    weighting="ap-gcn")` it is "Adaptive Propagation" (AP-GCN, arXiv 2002.10306). The features are
    usually the predictions of a multilayer perceptron.

    After a call, the attribute `ponder` is its record; see `AdaptiveConv`.

    Parameters
    ----------
    K : int
        The largest number of steps of a node.
    alpha : float
        The share of the first features in each step, in `[0, 1)`.
    in_channels : int, optional
        Features of a node, for the halting unit of a rule such as `ACT`.
    dropout : float
        Probability in training that a step leaves out an edge, before the normalisation. Each step
        draws its own edges.
    rule : HaltingRule, optional
        The halting rule. The default is `FixedDepth()`, or, with `in_channels`,
        `ACT(halt_from="output")`.
    halted : {"frozen", "running"}
        What neighbours of a halted node read: its last state, or a state that is still updated.
    bias_init : float
        Initial bias of the halting unit; the default of AP-GCN is minus the logarithm of `K`.

    Raises
    ------
    ValueError
        If `alpha`, `dropout` or `halted` is out of range, if a rule needs `in_channels`,
        or, in a call, if arguments do not fit.

    Examples
    --------
    >>> propagate = AdaptivePropagation(K=10, alpha=0.1)
    >>> x, edge_index = torch.randn(5, 3), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    >>> propagate(x, edge_index).shape  # or propagate(graph, x), with a graph of DGL
    torch.Size([5, 3])
    """

    def __init__(
        self,
        K: int = 10,  # noqa: N803, as in PyG and in the papers
        alpha: float = 0.1,
        *,
        in_channels: int | None = None,
        dropout: float = 0.0,
        rule: HaltingRule | None = None,
        halted: str = "frozen",
        bias_init: float | None = None,
    ) -> None:
        super().__init__()
        if halted not in ("frozen", "running"):
            raise ValueError(f"halted must be 'frozen' or 'running', got {halted!r}")
        step = UniversalTransformerStep(
            Propagation(in_channels or 1, alpha, dropout),  # type: ignore[arg-type]
            None,
            norm=None,
            residual=False,
        )
        halting = None
        if rule is None and in_channels is not None:
            rule = ACT(halt_from="output")
        if getattr(rule, "uses_probability", False):
            if in_channels is None:
                raise ValueError(
                    f"{rule} reads a halting unit: give AdaptivePropagation in_channels"
                )
            bias = -math.log(max(K, 1)) if bias_init is None else bias_init
            halting = HaltingUnit(in_channels, bias_init=bias)
        self.in_channels = in_channels
        self.recurrence = AdaptiveRecurrence(
            step,
            halting,
            rule=rule,
            max_steps=K,
            halted=halted,
            position_signal=None,
            step_signal=None,
        )

    def reset_parameters(self) -> None:
        """Draw new parameters of the halting unit, if there is one."""
        self.recurrence.reset_parameters()

    def forward(self, x: Any, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Return the output features, `(N, C)`.

        Parameters
        ----------
        x, edge_index
            Of PyG: features `(N, C)`, and edges `(2, E)`; or of DGL: a graph, and the features.
        edge_weight : Tensor, optional
            `(E,)`, non-negative weights of the edges.
        """
        layout, x = self.read(x, edge_index)
        step = self.recurrence.steps[0]
        if layout.num_src != layout.num_dst:
            raise ValueError(
                f"AdaptivePropagation needs one set of nodes, got {layout.num_src} sources and "
                f"{layout.num_dst} destinations"
            )
        check_edge_weight(layout, edge_weight)
        if edge_weight is not None and bool((edge_weight < 0).any()):
            least = edge_weight.min().item()
            raise ValueError(f"edge_weight must be 0 or more, got {least}: degrees are their sums")
        if self.in_channels is None:  # any number of features fits
            step.attention.in_feats, step.attention.out_feats = (x.shape[1],) * 2, x.shape[1]
        check_feat(x, "source", layout.num_src, step.attention.in_feats[0], step)
        layout, order = layout.cached(_with_first_states)
        if edge_weight is not None:
            one = edge_weight.new_ones(1, dtype=torch.float32)  # bools do not add up
            edge_weight = torch.cat([edge_weight, one])[order]
        out, self.ponder, *_ = self.recurrence(layout, torch.cat([x, x]), edge_weight=edge_weight)
        return out

    def __repr__(self) -> str:
        step: Any = self.recurrence.step
        return f"AdaptivePropagation(K={self.recurrence.max_steps}, alpha={step.attention.alpha:g})"


class Propagation(Aggregation):
    """The product of `AdaptivePropagation`, instead of attention in its step.

    The sources are the `N` destinations, and then again as many nodes with the first states, which
    do not change because they have no in-edges.
    """

    allows_residual = False
    node_flops = 0

    def __init__(self, feats: int, alpha: float, dropout: float) -> None:
        super().__init__()
        check_probability("alpha", alpha)
        check_probability("dropout", dropout)
        self.in_feats, self.out_feats = (feats, feats), feats
        self.alpha, self.dropout = alpha, dropout

    @property
    def edge_flops(self) -> int:
        return 2 * self.out_feats

    def reset_parameters(self) -> None:
        """Do nothing: there are no parameters."""

    def attend(
        self,
        layout: EdgeLayout,
        rows: Tensor,
        stored: Tensor,
        *,
        frontier: Tensor | None = None,
        edge_weight: Tensor | None = None,
        **others: Any,
    ) -> tuple[Tensor, None]:
        """Return the new states `(A, C)`, and None; `edge_weight` is `(E,)`."""
        self.refuse("Propagation", others)
        weight = self._weights(layout, edge_weight, stored.dtype)
        out = neighbor_sum(layout, stored, weight, frontier).to(stored.dtype)
        if not self.alpha:
            return out, None
        first = stored[layout.num_dst :]
        first = first if frontier is None else first.index_select(0, frontier)
        return torch.add((1 - self.alpha) * out, first, alpha=self.alpha), None

    def _weights(self, layout: EdgeLayout, weight: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Return the normalised weights of the edges, in canonical order."""
        drops = self.training and self.dropout > 0
        if weight is None and not drops:
            return layout.cached(_degree_weights, dtype)
        if weight is None:
            weight = torch.ones(layout.num_edges, dtype=dtype, device=layout.device)
        elif layout.edge_ids is not None:
            weight = weight[layout.edge_ids]
        if drops:
            kept = torch.rand(layout.num_edges, device=layout.device) >= self.dropout
            weight = weight * (kept | (layout.destinations() == layout.sources()))
        return _normalized(layout, weight)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha:g}, dropout={self.dropout:g}"


def _normalized(layout: EdgeLayout, weight: Tensor) -> Tensor:
    """Return edge weights after the normalisation, all in canonical order."""
    row = layout.destinations()
    degree = row_sums(weight, row, layout.num_dst)
    # Without in-edges, a node has the weight 0, and not infinity.
    scale = torch.where(degree > 0, degree, torch.inf).rsqrt()
    return scale[row] * weight * scale[layout.sources()]


def _degree_weights(layout: EdgeLayout, dtype: torch.dtype) -> Tensor:
    ones = torch.ones(layout.num_edges, dtype=torch.float64, device=layout.device)
    return _normalized(layout, ones).to(dtype)


def _with_first_states(layout: EdgeLayout) -> tuple[EdgeLayout, Tensor]:
    """Return a layout with self-loops and with as many more sources, and the old ids of its edges.

    See `edges_with_self_loops`.
    """
    source, target, order = edges_with_self_loops(layout)
    sizes: Any = {"num_src": 2 * layout.num_dst, "num_dst": layout.num_dst}
    return layout_from_edges(source, target, dst_lengths=layout.dst_lengths, **sizes), order
