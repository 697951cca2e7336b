"""A graph convolution over several node types, with a separate depth for each node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout, layout_from_edges
from graphut.attention.checks import check_finite, check_index
from graphut.nn.adaptive_conv import check_conv_options, linear, make_recurrence
from graphut.nn.aggregation import edge_list
from graphut.nn.checks import check_feat
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
    norms and the halting unit. A node without in-edges reads nothing.

    After a call, `ponder` is its record, in which `nodes` has the rows of each node type:
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
        is_pair = isinstance(metadata, (tuple, list)) and len(metadata) == 2
        triples = metadata[1] if is_pair else ()
        wrong = [f"the edge type {k!r}" for k in triples if isinstance(k, str) or len(k) != 3]
        if wrong or not is_pair:
            found = wrong[0] if is_pair else type(metadata).__name__
            raise ValueError(
                "metadata must be (node types, edge types), and an edge type a triple (source, "
                f"name, destination), got {found}; pass data.metadata() of PyG, or "
                "(graph.ntypes, graph.canonical_etypes) of DGL"
            )
        self.node_types, self.edge_types = list(metadata[0]), [tuple(r) for r in metadata[1]]
        kinds: list[Any] = [*self.node_types, *self.edge_types]
        for number, each in enumerate(kinds):
            if each in kinds[:number]:
                raise ValueError(f"metadata has the type {each!r} more than once")
        for source, _, target in self.edge_types:
            self._check_types("node types", {source, target}, self.node_types)
        if isinstance(in_channels, Mapping):
            self._check_types("node types of in_channels", in_channels, self.node_types)
            for kind in self.node_types:
                if kind not in in_channels:
                    raise ValueError(
                        f"in_channels has no {kind!r}: it needs the number of features of each "
                        "node type in metadata"
                    )
            sizes = [in_channels[kind] for kind in self.node_types]
        else:
            sizes = [in_channels] * len(self.node_types)
        check_conv_options(sizes, out_channels, heads, max_steps, dropout, options)
        self.out_channels = out_channels
        self.input_maps = nn.ModuleList(linear(size, out_channels) for size in sizes)
        sources = [self.node_types.index(source) for source, _, _ in self.edge_types]
        attention = HeteroAttention(out_channels, heads, len(self.node_types), sources)
        self.input_dropout = ByteDropout(input_dropout)
        self.recurrence = make_recurrence(attention, max_steps, dropout, rule, **options)
        self.nodes = dict[str, Tensor]()

    def reset_parameters(self) -> None:
        """Draw new parameters in all layers."""
        for part in (*self.input_maps, self.recurrence):
            part.reset_parameters()

    def forward(
        self, graph: Any, x: Any = None, *, batch_dict: Mapping[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Return the output states of each node type, `(N_dst, out_channels)`.

        Parameters
        ----------
        x_dict, edge_index_dict
            Of PyG: features `(N, in_channels)` by node type, and edges `(2, E)` by edge type.
        graph, x_dict
            Of DGL: a heterograph, or a sampled block for all steps; and the features of the sources
            by node type. The output is that of the destinations.
        batch_dict : dict of str to Tensor, optional
            `(N,)` int64, the graph of each node by node type, for the rule `Global`.
        """
        layout, feat, rows = self.union(graph, x)
        self.nodes = {kind: ids[ids < layout.num_dst] for kind, ids in rows.items()}
        if batch_dict is None and isinstance(graph, DGLGraph) and graph.batch_size > 1:
            sizes = {kind: graph.batch_num_nodes(kind) for kind in graph.ntypes}
            batch_dict = {kind: torch.repeat_interleave(size) for kind, size in sizes.items()}
        graph_ids = None if batch_dict is None else self._graph_ids(batch_dict, layout)
        out, self.ponder, *_ = self.recurrence(layout, feat, graph_ids=graph_ids)
        return {kind: out.index_select(0, ids) for kind, ids in self.nodes.items()}

    def _graph_ids(self, batch_dict: Mapping[str, Tensor], layout: EdgeLayout) -> Tensor:
        """Return the graph of each node, `(N_dst,)`, given the graphs by node type."""
        self._check_types("node types of batch_dict", batch_dict, self.node_types)
        graph_ids = torch.zeros(layout.num_dst, dtype=torch.int64, device=layout.device)
        for kind, rows in self.nodes.items():
            if kind not in batch_dict and len(rows):
                raise ValueError(f"batch_dict has no {kind!r}, but there are {len(rows)} nodes")
            if kind in batch_dict:
                ids = batch_dict[kind]
                check_index(f"batch_dict[{kind!r}]", ids)
                if len(ids) != len(rows):
                    raise ValueError(
                        f"batch_dict[{kind!r}] has {len(ids)} entries for {len(rows)} nodes"
                    )
                graph_ids[rows] = ids.to(layout.device)
        return graph_ids

    def union(self, graph: Any, x: Any) -> tuple[EdgeLayout, Tensor, dict[str, Tensor]]:
        """Return one graph of all node types, the first states of its nodes, and their numbers.

        The arguments are those of a call. The three results are the layout of the edges, the states
        `(N, out_channels)`, and the nodes of each type as rows of these states.
        `conv.recurrence(layout, feat)` accepts more options than a call, such as `get_steps=True`.
        """
        if x is None:
            raise TypeError(
                "call HeteroAdaptiveConv as conv(data.x_dict, data.edge_index_dict), or as "
                f"conv(graph, x_dict), with a graph of DGL; got conv({type(graph).__name__})"
            )
        if isinstance(graph, Mapping):  # (x_dict, edge_index_dict)
            graph, x = x, graph
        if not isinstance(x, Mapping):
            raise TypeError(
                "features must be a dict by node type, such as "
                f"{{{self.node_types[0]!r}: x}}, got {type(x).__name__}"
            )
        self._check_types("node types", x, self.node_types)
        for kind, feat in x.items():
            check_rows(f"x[{kind!r}]", feat)
            check_finite(**{f"x[{kind!r}]": feat})
        if isinstance(graph, Mapping):
            self._check_types("edge types", graph, self.edge_types)
            sizes = {kind: len(feat) for kind, feat in x.items()}
            block = _Block(sizes, sizes, _edges_of_pyg(graph, sizes))
        else:
            block = _read(graph)
        self._check_types("node types", block.sources, self.node_types)
        self._check_types("edge types", block.edges, self.edge_types)
        device = self.recurrence.steps[0].attention.output.weight.device
        rows = {kind: ids.to(device) for kind, ids in self._number_nodes(block).items()}
        feat = self._first_states(x, rows)
        return self._layout(block, rows, feat.device), feat, rows

    def _number_nodes(self, block: _Block) -> dict[str, Tensor]:
        """Return the rows of the nodes of each type; destinations come before other nodes."""
        rows, total = {}, sum(block.targets.values())
        targets = torch.arange(total).split([block.targets.get(k, 0) for k in self.node_types])
        for kind, ids in zip(self.node_types, targets, strict=True):
            more = block.sources.get(kind, 0) - len(ids)
            if more < 0:
                raise ValueError(
                    f"the block has {len(ids)} {kind!r} destinations, but only "
                    f"{len(ids) + more} {kind!r} sources; every destination must be a source"
                )
            rows[kind] = torch.cat([ids, torch.arange(total, total + more)])
            total += more
        return rows

    def _first_states(self, x: Mapping[str, Tensor], rows: dict[str, Tensor]) -> Tensor:
        maps: dict[str, Any] = dict(zip(self.node_types, self.input_maps, strict=True))
        for kind, ids in rows.items():
            if kind in x:
                width = maps[kind].in_features or x[kind].shape[-1]  # 0 before the first call
                check_feat(x[kind], repr(kind), len(ids), width, maps[kind])
            elif len(ids):
                raise ValueError(f"the graph has {len(ids)} {kind!r} nodes, but x has no {kind!r}")
        activation: Any = self.recurrence.steps[0].activation
        mapped = torch.cat([maps[kind](self.input_dropout(feat)) for kind, feat in x.items()])
        states = activation(mapped)
        return states.index_select(0, torch.cat([rows[kind] for kind in x]).argsort())

    def _layout(self, block: _Block, rows: dict[str, Tensor], device: torch.device) -> EdgeLayout:
        none = torch.zeros(0, dtype=torch.int64, device=device)
        ends, types = ([none], [none]), [none]
        for number, kind in enumerate(self.edge_types):
            if kind in block.edges:
                for side, part, name in zip(ends, block.edges[kind], kind[::2], strict=True):
                    side.append(rows[name][part.to(device)])
                types.append(torch.full_like(ends[0][-1], number))
        sizes = sum(block.sources.values()), sum(block.targets.values())
        source, target = map(torch.cat, ends)
        layout = layout_from_edges(source, target, num_src=sizes[0], num_dst=sizes[1])
        of_nodes = torch.empty(sizes[0], dtype=torch.int64, device=device)
        for number, ids in enumerate(rows.values()):
            of_nodes[ids[ids < sizes[0]]] = number
        attention: Any = self.recurrence.steps[0].attention
        attention.add_types(layout, of_nodes, torch.cat(types))
        return layout

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


class _Block(NamedTuple):
    """The numbers of sources and of destinations by node type, and edges by edge type."""

    sources: dict[str, int]
    targets: dict[str, int]
    edges: dict[EdgeType, tuple[Tensor, Tensor]]


def _edges_of_pyg(
    edge_index: Mapping[EdgeType, Tensor], sizes: Mapping[str, int]
) -> dict[EdgeType, tuple[Tensor, Tensor]]:
    """Check PyG's edges by type, and return the sources and the destinations."""
    ends = {}
    for kind, edges in edge_index.items():
        for name in kind[::2]:
            if name not in sizes:
                raise ValueError(f"there are edges of {kind}, but x has no {name!r}")
        nodes = sizes[kind[0]], sizes[kind[2]]
        source, target = check_edge_index(edges, *nodes, f"edge_index of {kind}")
        ends[kind] = source, target
    return ends


def _read(graph: DGLGraph) -> _Block:
    if not isinstance(graph, DGLGraph):
        raise TypeError(
            f"expected a graph of DGL or a dict of PyG's edges, got {type(graph).__name__}"
        )
    sources = {kind: graph.num_src_nodes(kind) for kind in graph.srctypes}
    targets = {kind: graph.num_dst_nodes(kind) for kind in graph.dsttypes}
    kinds = graph.canonical_etypes
    if not graph.is_block:  # DGL may list types without in-edges among the sources only
        sources = targets = {kind: graph.num_nodes(kind) for kind in graph.ntypes}
    edges = {kind: edge_list(as_layout(graph, kind)) for kind in kinds}
    return _Block(sources, targets, edges)
