"""Attention over the in-edges of several types, with one softmax for all of them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from graphut.attention import EdgeLayout, edge_attention, layout_from_edges
from graphut.nn.aggregation import Aggregation


class EdgeTypes(NamedTuple):
    """The type of each node, and edges whose sources are rows: one for each node and edge type."""

    nodes: Tensor  # (N_src,) int64, the type of each node
    edges: EdgeLayout  # from row `slots * node + slot`; the slot stands for the edge type


class HeteroAttention(Aggregation):
    r"""Attention with keys and values by edge type, and queries by node type.

    .. math::
        \mathrm{out}_i = W^O \, \Vert_h \sum_{j \to i} a_{ij}^h W^V_{r,h} x_j, \qquad
        a_{ij}^h = \mathrm{softmax}_{j \to i}
            \frac{W^Q_{t,h} x_i \cdot W^K_{r,h} x_j}{\sqrt{d_{head}}}

    where :math:`t` is the type of node :math:`i`, and :math:`r` is the type of the edge. The
    softmax runs over the in-edges of all types. This is the attention of HGT (arXiv
    2003.01332, section 3); each product of its maps of the source type and of the edge
    type, and its prior of the edge type, is one map here. Edge types share no maps.

    The layouts are those of `HeteroAdaptiveConv.union`. The key/value table has, for each node, one
    entry for each edge type that the type of the node is the source of.

    Parameters
    ----------
    feats : int
        Features of a state.
    num_heads : int
        Heads, among which the features are divided.
    num_node_types : int
        Number of node types.
    sources : sequence of int
        The number of the source's node type, for each edge type.
    """

    backend = "auto"  # `dense_recurrence` sets another
    reads_types = True  # `project` takes the layout and the nodes

    def __init__(
        self, feats: int, num_heads: int, num_node_types: int, sources: Sequence[int]
    ) -> None:
        super().__init__()
        if feats % num_heads:
            raise ValueError(f"{feats} features do not divide into {num_heads} heads")
        self.in_feats, self.out_feats, self.num_heads = (feats, feats), feats, num_heads
        self.query = nn.ModuleList(nn.Linear(feats, feats) for _ in range(num_node_types))
        self.key_values = nn.ModuleList(nn.Linear(feats, 2 * feats) for _ in sources)
        self.output = nn.Linear(feats, feats)
        self._of_type: list[list[int]] = [[] for _ in range(num_node_types)]
        self._slots = []  # the place of an edge type among those with the same source
        for number, source in enumerate(sources):
            self._slots.append(len(self._of_type[source]))
            self._of_type[source].append(number)
        self.num_slots = max(map(len, self._of_type), default=0)
        # Every node counts as one of the type with the most edge types.
        self.node_flops, self.edge_flops = 4 * feats**2, 4 * feats
        self.key_value_flops = 4 * feats**2 * self.num_slots
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters: Xavier uniform for each linear map, zero for biases."""
        layers: list[Any] = [*self.query, *self.key_values, self.output]
        for layer in layers:
            for weight in layer.weight.split(self.out_feats):
                nn.init.xavier_uniform_(weight)
            nn.init.zeros_(layer.bias)

    def add_types(self, layout: EdgeLayout, nodes: Tensor, edges: Tensor) -> None:
        """Store the types of nodes and edges, `(N_src,)` and `(E,)`, with a layout."""
        row, source, edge = layout.in_edges()
        slots = torch.tensor(self._slots, dtype=torch.int64, device=edge.device)
        entry = source * self.num_slots + slots[edges[edge]]
        by_id = [torch.empty_like(edge).index_copy(0, edge, ends) for ends in (entry, row)]
        entries, num_dst = layout.num_src * self.num_slots, layout.num_dst
        typed = layout_from_edges(*by_id, num_src=entries, num_dst=num_dst)
        object.__setattr__(layout, "types", EdgeTypes(nodes, typed))

    def project(self, rows: Tensor, layout: EdgeLayout, nodes: Tensor | None = None) -> Tensor:
        """Return the keys and values of `nodes` with states `rows`, for each of their edge types.

        Without `nodes`, the rows are those of the first nodes. The result is `(A, slots * 2 * H *
        D)`; entries without an edge type are zero.
        """
        types = edge_types(layout).nodes
        types = types[: len(rows)] if nodes is None else types[nodes]
        width = 2 * self.out_feats * self.num_slots

        def all_of(numbers: list[int]) -> Callable[[Tensor], Tensor]:
            def project(part: Tensor) -> Tensor:
                entries = [self.key_values[number](part) for number in numbers]
                rest = width - 2 * self.out_feats * len(numbers)
                return torch.cat([*entries, part.new_zeros(len(part), rest)], 1)

            return project

        return _map_by_type(rows, types, [all_of(numbers) for numbers in self._of_type])

    def attend(
        self,
        layout: EdgeLayout,
        rows: Tensor,
        stored: Tensor,
        *,
        frontier: Tensor | None = None,
        get_attention: bool = False,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output, `(A, feats)`, and any attention weights."""
        self.refuse("HeteroAttention", options)
        nodes, edges = edge_types(layout)
        types = nodes[: layout.num_dst] if frontier is None else nodes[frontier]
        by_head = (self.num_heads, self.out_feats // self.num_heads)
        key, value = stored.reshape(edges.num_src, 2, *by_head).unbind(1)
        query = _map_by_type(rows, types, self.query).unflatten(1, by_head)
        options = {"frontier": frontier, "get_attention": get_attention, "backend": self.backend}
        attended = edge_attention(edges, query, key, value, allow_zero_in_degree=True, **options)
        out, weights = attended if isinstance(attended, tuple) else (attended, None)
        return self.output(out.flatten(1)), weights

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}"


def edge_types(layout: EdgeLayout) -> EdgeTypes:
    """Return the types that `HeteroAttention.add_types` has stored with a layout."""
    if layout.types is None:
        raise ValueError(f"{layout} has no edge types: make it with HeteroAdaptiveConv.union")
    types: EdgeTypes = layout.types
    return types


def _map_by_type(rows: Tensor, types: Tensor, maps: Any) -> Tensor:
    """Return `maps[types[i]](rows)[i]` for each row `i`."""
    order = types.argsort(stable=True)
    counts = torch.bincount(types, minlength=len(maps)).tolist()
    parts = rows.index_select(0, order).split(counts)
    mapped = torch.cat([each(part) for each, part in zip(maps, parts, strict=True)])
    return mapped.index_select(0, order.argsort())
