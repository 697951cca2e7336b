"""Registers: exact numbers that a node computes from its in-edges, by a learned operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import gumbel_softmax, one_hot

from graphut.attention import EdgeLayout
from graphut.attention.checks import check_finite, check_tensor
from graphut.attention.ragged import row_log_sums, row_maxima, row_sums
from graphut.nn.aggregation import Aggregation

_SHARPNESS = 10.0  # of the softmax over in-edges in training, for keys of about 1
_MARGIN = 1.0  # an edge takes part if its entry of the table is at most this far below the best


class RegisterMessages(Aggregation):
    r"""Give each node the best key of its in-edges, by an operation that is learned.

    A node holds a number, its register :math:`r`, that no matrix touches, or it holds none. The key
    of an edge :math:`j \to i` with weight :math:`w_{ij}` is one of

    .. math::
        w_{ij}, \quad r_j, \quad r_j + w_{ij}, \quad \max(r_j, w_{ij})

    computed in the data type of the states. Three things are learned: which of the four it is,
    whether the smallest or the largest key is the best one, and, from whether :math:`j` and
    :math:`i` hold a register, which edges take part. The best key becomes the register of
    :math:`i`; the source of its edge is the pointer of :math:`i`, and of several such sources the
    one with the smallest id. If edges add nothing to a register, as edges of weight 0 do, it is
    the source with the fewest edges from a start, and then the smallest id, so that pointers form
    a tree. A node that no start reaches has no pointer. With the smallest sum this is the
    Bellman-Ford algorithm. The split into states that are learned and a number that is not follows
    "Discrete Neural Algorithmic Reasoning" (arXiv 2402.11628).

    A state has three columns: the register, 1 if it is held, and a positive number at a *start*.
    The self-loop of a start has the key 0, and the self-loops of other nodes do not take part. Each
    node needs a self-loop. The weights of the edges are the option `edge_feat`, `(E, 1)`; without
    it all are 1. The layer replaces attention in `UniversalTransformerStep` with
    `norm=None, residual=False`, in a recurrence with `inject_input=True` and no signals;
    :meth:`first_states` returns its input. Nodes that wake continue after changes of the graph. If
    a change makes the best key worse, as a heavier or a removed edge does, nodes can support each
    other with registers from before the change. They then take more rounds, and with sums they do
    not come to rest if no start can be reached any more.

    In training, the operation is drawn with Gumbel-softmax (arXiv 1611.01144), whose gradient is
    that of a softmax with noise; the register is the mean of the keys, weighted by a softmax over
    the in-edges. In evaluation all choices are exact, and without a gradient.

    Examples
    --------
    >>> from graphut.nn import AdaptiveRecurrence, EventDriven
    >>> from graphut._dgl import dgl
    >>> messages = RegisterMessages().eval()
    >>> messages.set_operation("sum", smallest=True)
    >>> graph = dgl.graph(([0, 1, 2, 0, 1], [0, 1, 2, 1, 2]))
    >>> states = messages.first_states(torch.tensor([True, False, False]))
    >>> weight = torch.tensor([[1.0], [1.0], [1.0], [0.5], [0.25]], dtype=torch.double)
    >>> for _ in range(3):
    ...     states = messages(graph, states, edge_feat=weight)
    >>> states[:, 0]
    tensor([0.0000, 0.5000, 0.7500], dtype=torch.float64)
    """

    OPERATIONS = ("weight", "register", "sum", "max")
    in_feats, out_feats = (3, 3), 3
    edge_flops, node_flops, key_value_flops = 8, 0, 0
    allows_residual = False  # the step's: a sum or a LayerNorm would change the numbers

    def __init__(self) -> None:
        super().__init__()
        self.operation = nn.Parameter(torch.empty(4, dtype=torch.double))
        self.sign = nn.Parameter(torch.empty((), dtype=torch.double))
        # By source and destination: the node holds no register, or holds one.
        self.table = nn.Parameter(torch.empty(2, 2, dtype=torch.double))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make all operations and edges equally likely, and draw a small sign."""
        nn.init.zeros_(self.operation)
        nn.init.zeros_(self.table)
        nn.init.normal_(self.sign, std=0.1)

    def set_operation(self, name: str, *, smallest: bool) -> None:
        """Choose an operation, such as "sum", for edges whose source holds a register."""
        if name not in self.OPERATIONS:
            raise ValueError(f"the operation must be one of {self.OPERATIONS}, got {name!r}")
        with torch.no_grad():
            self.operation.copy_(20.0 * one_hot(torch.tensor(self.OPERATIONS.index(name)), 4))
            self.sign.fill_(-1.0 if smallest else 1.0)
            self.table.copy_(torch.tensor([[-5.0], [5.0]]).expand(2, 2))

    def first_states(self, is_start: Tensor) -> Tensor:
        """Return states `(N, 3)` in which no node holds a register, given a mask of the starts."""
        check_tensor(is_start, "is_start")
        if is_start.dtype != torch.bool or is_start.dim() != 1:
            raise TypeError(
                "is_start must be a bool tensor (N,), True at each start; got "
                f"{is_start.dtype} of shape {tuple(is_start.shape)}"
            )
        states = self.table.new_zeros(len(is_start), 3)
        states[:, 2] = 2.0 * is_start.to(states.device) - 1.0
        return states

    def project(self, feat_src: Tensor, *types: Any) -> Tensor:
        """Return a copy of the states, which neighbours read as they are."""
        return feat_src.clone()

    def attend(
        self,
        layout: EdgeLayout,
        rows: Tensor,
        stored: Tensor,
        *,
        frontier: Tensor | None = None,
        edge_feat: Tensor | None = None,
        **options: Any,
    ) -> tuple[Tensor, None]:
        """Return the new states of nodes with states `rows`, and None instead of weights."""
        self.refuse("RegisterMessages", options)
        edges = self._edges(layout, rows, stored, frontier, edge_feat)
        if self.training:
            share = _log_shares(edges, len(rows)).exp() * edges.is_held
            held = row_sums(share, edges.row, len(rows))
            register = row_sums(share * edges.key, edges.row, len(rows))
        else:
            best = _first_edges(edges, _with_best_key(edges, len(rows)), len(rows), [edges.source])
            row, zero = edges.row[best], edges.key.new_zeros(len(rows))
            register, held = zero.index_copy(0, row, edges.key[best]), zero.index_fill(0, row, 1.0)
        # Injected in the next round, the first state decides the sign: it is 1 or -1.
        return torch.stack([register, held, rows[:, 2].sign() / 4], 1), None

    def edge_logits(self, layout: EdgeLayout, states: Tensor, edge_feat: Tensor | None) -> Tensor:
        """Return the logarithm of the probability that an edge is its node's best, `(E,)`.

        In evaluation it is 0 for the best edge, and `-inf` for all others.
        """
        nodes = layout.num_dst
        edges = self._edges(layout, states[:nodes], states, None, edge_feat)
        if self.training:
            likely = _log_shares(edges, nodes)
            return torch.empty_like(likely).index_copy(0, edges.edge, likely)
        is_best, ranks = _with_best_key(edges, nodes), [edges.source, edges.edge]
        if bool(edges.adds_nothing.any()):
            ranks.insert(0, _edges_from_starts(edges, is_best, layout.num_src)[edges.source])
        best = _first_edges(edges, is_best, nodes, ranks)
        logits = states.new_full((layout.num_edges,), -torch.inf)
        return logits.index_fill(0, edges.edge[best], 0.0)

    def _edges(
        self,
        layout: EdgeLayout,
        rows: Tensor,
        states: Tensor,
        frontier: Tensor | None,
        edge_feat: Tensor | None,
    ) -> _Candidates:
        """Return the in-edges of the nodes with states `rows`, with their keys and scores."""
        if not layout.cached(_has_self_loops):
            raise ValueError("registers need a self-loop at each node: add it to the graph")
        if edge_feat is not None and edge_feat.shape != (layout.num_edges, 1):
            raise ValueError(
                f"edge_feat must have shape {(layout.num_edges, 1)} for registers, one weight for "
                f"each edge; got {tuple(edge_feat.shape)}"
            )
        row, source, edge = layout.in_edges(frontier)
        target = row if frontier is None else frontier[row]
        is_loop = source == target
        register, held, _ = states[source].unbind(1)
        weight = torch.ones_like(register) if edge_feat is None else edge_feat[edge, 0].to(register)
        check_finite(registers=register, edge_feat=weight)
        total = register + weight
        keys = torch.stack([weight, register, total, torch.maximum(register, weight)], 1)
        if self.training:
            key = keys @ gumbel_softmax(self.operation, hard=True)
        else:
            key = keys.index_select(1, self.operation.argmax()[None])[:, 0]
        key = key.masked_fill(is_loop, 0.0)
        if not key.isfinite().all():
            at = int((~key.isfinite()).nonzero()[0])
            raise ValueError(
                f"the register {register[at]:g} of node {source[at]} and the weight {weight[at]:g} "
                f"of its edge to node {target[at]} have no finite sum: scale the weights down"
            )
        held = torch.where(is_loop, (rows[row, 2] > 0).to(held), held)
        target_held = rows[row, 1]
        if self.training:
            by_target = torch.stack([1 - target_held, target_held], 1)
            table = by_target @ self.table.T  # (E, 2) by source: none, held
            entry = (1 - held) * table[:, 0] + held * table[:, 1]
            score = _SHARPNESS * self.sign * key + entry
        else:
            takes_part = self.table >= self.table.amax(0) - _MARGIN
            score = self.sign.sign() * key  # exact, unlike a product with the sign's size
            score = score.masked_fill(~takes_part[held.long(), target_held.long()], -torch.inf)
        adds_nothing = (total == register) & (held > 0) & ~is_loop
        return _Candidates(row, source, edge, key, held, score, adds_nothing)

    def extra_repr(self) -> str:
        chosen = self.OPERATIONS[int(self.operation.argmax())]
        return f"{'smallest' if self.sign < 0 else 'largest'} {chosen}"


class _Candidates(NamedTuple):
    """The in-edges of the rows that are computed."""

    row: Tensor
    source: Tensor
    edge: Tensor
    key: Tensor
    is_held: Tensor  # of the source; for a self-loop, whether the node is a start
    score: Tensor  # larger is better; -inf for an edge that does not take part
    adds_nothing: Tensor  # whether the sum of register and weight is the register


def _log_shares(edges: _Candidates, num_rows: int) -> Tensor:
    """Return the log-softmax of the scores over the in-edges of each row, `(E,)`."""
    return edges.score - row_log_sums(edges.score, edges.row, num_rows)[edges.row]


def _with_best_key(edges: _Candidates, num_rows: int) -> Tensor:
    """Return a mask of the edges that no other in-edge of their row is better than."""
    best = row_maxima(edges.score, edges.row, num_rows)[edges.row]
    return (edges.score == best) & (best > -torch.inf)


def _edges_from_starts(edges: _Candidates, is_best: Tensor, nodes: int) -> Tensor:
    """Return the number of edges with the best key from a start to each node, or `inf`, `(N,)`."""
    from scipy.sparse import coo_array  # only where ties need it
    from scipy.sparse.csgraph import dijkstra

    source, target = torch.stack([edges.source, edges.row])[:, is_best].cpu().numpy()
    graph = coo_array((np.ones(len(source)), (source, target)), shape=(nodes, nodes)).tocsr()
    far = dijkstra(graph, indices=source[source == target], unweighted=True, min_only=True)
    return torch.from_numpy(far).to(edges.key.device)


def _first_edges(
    edges: _Candidates, is_best: Tensor, num_rows: int, ranks: Sequence[Tensor]
) -> Tensor:
    """Return the edges with the best keys that come first in their rows by `ranks`, `(E,)` each.

    A row whose best edge has no register has none of them.
    """
    row, chosen = edges.row, is_best.nonzero()[:, 0]
    for rank in ranks:
        rank, each = rank[chosen], row[chosen]
        first = rank.new_empty(num_rows).scatter_reduce(0, each, rank, "amin", include_self=False)
        chosen = chosen[rank == first[each]]
    return chosen[edges.is_held[chosen] > 0]


def _has_self_loops(layout: EdgeLayout) -> bool:
    row, source, _ = layout.in_edges()
    return len(row[row == source].unique()) == layout.num_dst
