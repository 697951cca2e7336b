"""A graph convolution over several node types, with a separate depth for each node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, layout_from_edges
from graphut.attention.checks import check_feat, check_finite
from graphut.nn.adaptive_conv import check_conv_options, linear, make_recurrence
from graphut.nn.graph_call import Recorded, check_edge_index, check_rows
from graphut.nn.hetero_attention import HeteroAttention
from graphut.nn.layers import ByteDropout
from graphut.nn.rules import HaltingRule

EdgeType: TypeAlias = tuple[str, str, str]
Metadata: TypeAlias = tuple[Sequence[str], Sequence[EdgeType]]


class HeteroAdaptiveConv(Recorded):
    r"""Attend over the edges of all types again and again, until each node halts.

    `AdaptiveConv` for graphs with several types of nodes, with the arguments of PyG's `HGTConv`. A
    linear map for each node type makes the first states, of one width. Then all nodes of all types
    are the nodes of one `AdaptiveRecurrence`, in which each node has its own number of steps. Its
    attention is that of HGT (arXiv 2003.01332): keys and values by edge type, queries by node type,
    and one softmax over the in-edges of all types; see `HeteroAttention`. All nodes share the
    norms and the halting unit, and the rule `Global` halts all of them together. A node without
    in-edges reads nothing.

    After a call, `ponder` is its record, and `nodes` has the slice of each node type in it:
    `conv.ponder.steps[conv.nodes["paper"]]`. Add `ponder.cost`, the mean number of steps (with
    remainders) over all nodes, to the loss.

    Parameters
    ----------
    in_channels : int or dict of str to int
        Features of a node, of all types or of each type. With -1 the first call decides.
    out_channels : int
        Features of a state, and of the output.
    metadata : pair of sequences
        The node types, and the edge types as triples (source, name, destination):
        `data.metadata()` of PyG, or `(graph.ntypes, graph.canonical_etypes)` of DGL.
    heads, max_steps, dropout, input_dropout, rule, **options
        As in `AdaptiveConv`: `norm`, `residual`, `feed_forward`, `activation`, `halting_bias`,
        `halted` and `evaluation_halted`.

    Raises
    ------
    ValueError
        If an edge type has an unknown node type, if `out_channels` does not divide into `heads`,
        or, in a call, if a type is not in `metadata` or the features do not fit.

    Examples
    --------
    >>> written = ("author", "writes", "paper")
    >>> conv = HeteroAdaptiveConv({"author": 3, "paper": 5}, 8, (["author", "paper"], [written]))
    >>> x = {"author": torch.randn(2, 3), "paper": torch.randn(3, 5)}
    >>> out = conv(x, {written: torch.tensor([[0, 1, 1], [0, 0, 2]])})  # or conv(graph, x) of DGL
    >>> loss = out["paper"].square().mean() + 0.003 * conv.ponder.cost
    >>> out["paper"].shape, conv.ponder.steps[conv.nodes["paper"]].shape
    (torch.Size([3, 8]), torch.Size([3]))
    """

    def __init__(
        self,
        in_channels: int | Mapping[str, int],
        out_channels: int,
        metadata: Metadata,
        heads: int = 4,
        max_steps: int = 10,
        *,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        rule: HaltingRule | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._check_metadata(metadata)
        self.node_types, self.edge_types = list(metadata[0]), [tuple(r) for r in metadata[1]]
        for source, _, target in self.edge_types:
            self._check_types("node types", {source, target}, self.node_types)
        if isinstance(in_channels, Mapping):
            if {*in_channels} != {*self.node_types}:
                raise ValueError(
                    f"in_channels must have the number of features of each node type in metadata, "
                    f"{self.node_types}, got {dict(in_channels)}"
                )
            sizes = [in_channels[kind] for kind in self.node_types]
        else:
            sizes = [in_channels] * len(self.node_types)
        check_conv_options(HeteroAdaptiveConv, sizes, out_channels, heads or 0, max_steps, options)
        self.out_channels = out_channels
        self.input_maps = nn.ModuleList(linear(size, out_channels) for size in sizes)
        sources = [self.node_types.index(source) for source, _, _ in self.edge_types]
        attention = HeteroAttention(out_channels, heads, len(self.node_types), sources)
        self.input_dropout = ByteDropout(input_dropout)
        self.recurrence = make_recurrence(attention, max_steps, dropout, rule, **options)
        self.nodes = dict[str, slice]()

    def reset_parameters(self) -> None:
        """Draw new parameters in all layers."""
        for part in (*self.input_maps, self.recurrence):
            part.reset_parameters()

    def forward(self, x: Any, edge_index: Any) -> dict[str, Tensor]:
        """Return the output states of each node type, `(N, out_channels)`.

        Parameters
        ----------
        x, edge_index
            Of PyG: features `(N, in_channels)` by node type, and edges `(2, E)` by edge type; or of
            DGL: a heterograph, and features by node type.
        """
        layout, feat, self.nodes = self.union(x, edge_index)
        out, self.ponder, *_ = self.recurrence(layout, feat)
        return {kind: out[rows] for kind, rows in self.nodes.items()}

    def union(self, x: Any, edge_index: Any) -> tuple[EdgeLayout, Tensor, dict[str, slice]]:
        """Return one graph of all node types, the first states of its nodes, and their rows.

        The arguments are those of a call. The three results are the layout of the edges, the states
        `(N, out_channels)`, and the nodes of each type as a slice of these states.
        `conv.recurrence(layout, feat)` accepts more options than a call, such as `get_steps=True`.
        """
        got = f"conv({type(x).__name__}, {type(edge_index).__name__})"
        if isinstance(x, DGLGraph):
            x, edge_index = edge_index, _edges_of_dgl(x, edge_index)
        if not (isinstance(x, Mapping) and isinstance(edge_index, Mapping)):
            raise TypeError(
                "call HeteroAdaptiveConv as conv(data.x_dict, data.edge_index_dict), or as "
                f"conv(graph, x_dict), with a graph of DGL; got {got}"
            )
        self._check_types("node types", x, self.node_types)
        self._check_types("edge types", edge_index, self.edge_types)
        sizes = [len(x.get(kind, ())) for kind in self.node_types]
        ends = [*accumulate(sizes, initial=0)]
        rows = dict(zip(self.node_types, map(slice, ends, ends[1:]), strict=True))
        feat = self._first_states(x)
        layout, edge_types = self._layout(edge_index, x, rows, feat)
        of_nodes = torch.arange(len(sizes), device=feat.device)
        of_nodes = of_nodes.repeat_interleave(torch.tensor(sizes, device=feat.device))
        attention: Any = self.recurrence.steps[0].attention
        attention.add_types(layout, of_nodes, edge_types)
        return layout, feat, rows

    def _first_states(self, x: Mapping[str, Any]) -> Tensor:
        activation: Any = self.recurrence.steps[0].activation
        layer: Any
        mapped = []
        for kind, layer in zip(self.node_types, self.input_maps, strict=True):
            if kind in x:
                feat = x[kind]
                check_rows(f"x[{kind!r}]", feat)
                check_finite(**{f"x[{kind!r}]": feat})
                width = layer.in_features or feat.shape[-1]  # 0 before the first call
                check_feat(feat, repr(kind), len(feat), width, layer)
                mapped.append(layer(self.input_dropout(feat)))
        states: Tensor = activation(torch.cat(mapped))
        return states

    def _layout(
        self, edge_index: Any, x: Mapping[str, Tensor], rows: dict[str, slice], feat: Tensor
    ) -> tuple[EdgeLayout, Tensor]:
        """Return the edges between the rows of `feat`, and their types, `(E,)`."""
        none = torch.zeros(0, dtype=torch.int64, device=feat.device)
        sources, targets, types = [none], [none], [none]
        for number, kind in enumerate(self.edge_types):
            if kind in edge_index:
                for name in kind[::2]:
                    if name not in x and edge_index[kind].numel():
                        raise ValueError(
                            f"there are edges of {kind}, but x has no {name!r}: give these nodes "
                            "features, such as embedding(ids) with a torch.nn.Embedding"
                        )
                nodes = len(x.get(kind[0], ())), len(x.get(kind[2], ()))
                each = check_edge_index(edge_index[kind], *nodes, f"edge_index of {kind}")
                source, target = each.to(feat.device)
                sources.append(source + rows[kind[0]].start)
                targets.append(target + rows[kind[2]].start)
                types.append(torch.full_like(source, number))
        ends: Any = torch.cat(sources), torch.cat(targets)
        layout = layout_from_edges(*ends, num_src=len(feat), num_dst=len(feat))
        return layout, torch.cat(types)

    def _check_metadata(self, metadata: Any) -> None:
        is_pair = isinstance(metadata, (tuple, list)) and len(metadata) == 2
        for triple in metadata[1] if is_pair else [None]:
            if not isinstance(triple, (tuple, list)) or len(triple) != 3:
                raise ValueError(
                    "metadata must be a pair of node types and of edge types, each a triple "
                    f"(source, name, destination); got {triple or metadata!r:.80}; pass "
                    "data.metadata() of PyG, or (graph.ntypes, graph.canonical_etypes) of DGL"
                )

    def _check_types(self, name: str, given: Iterable[Any], known: Iterable[Any]) -> None:
        unknown = [kind for kind in given if kind not in known]
        if unknown:
            raise ValueError(
                f"unknown {name} {unknown}: the known ones are {[*known]}; pass data.metadata() of "
                "PyG, or (graph.ntypes, graph.canonical_etypes) of DGL, as metadata"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "nodes": {}}

    def __repr__(self) -> str:
        sizes = f"{len(self.node_types)} node types, {len(self.edge_types)} edge types"
        return f"{type(self).__name__}({self.out_channels}, {sizes})"


def _edges_of_dgl(graph: DGLGraph, x: Any) -> dict[EdgeType, Tensor]:
    """Return the edges of each type of a DGL graph, `(2, E)`, which has the nodes of `x`."""
    if graph.is_block:
        raise ValueError(
            "HeteroAdaptiveConv repeats its step on one graph, but a block has no states of "
            "sources after the first step: sample subgraphs, such as with ShaDowKHopSampler"
        )
    for kind, feat in x.items() if isinstance(x, Mapping) else ():
        nodes = graph.num_nodes(kind) if kind in graph.ntypes else 0
        if len(feat) != nodes:
            raise ValueError(f"the graph has {nodes} {kind!r} nodes, but x has {len(feat)} rows")
    return {kind: torch.stack(graph.edges(etype=kind)).long() for kind in graph.canonical_etypes}
