"""The Universal Transformer for graphs, with predictions for nodes, edges or whole graphs."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from graphut._dgl import DGLGraph, dgl
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.checks import check_feat, check_tensor
from graphut.attention.ragged import row_log_sums
from graphut.models.adaptive_model import AdaptiveModel
from graphut.models.config import UniversalGraphTransformerConfig
from graphut.models.graph_columns import GraphInput
from graphut.models.graph_inputs import JoinedGraphs, as_input, graph_list, until_quiescent
from graphut.models.layer_builders import make_attention, make_recurrence
from graphut.models.outputs import GraphOutput, GraphPrediction
from graphut.nn import (
    AdaptiveRecurrence,
    ConvAsAttention,
    InputNoise,
    MessageAggregation,
    MultiHeadAttention,
    Ponder,
    Quantized,
    RegisterMessages,
    UniversalTransformerStep,
    parse_rule,
)
from graphut.nn.checks import check_same_nodes
from graphut.nn.graph_call import from_edge_index

_MOST_NODES = 20_000  # of the graphs in a call of `predict`


class UniversalGraphTransformer(AdaptiveModel):
    r"""An adaptive Universal Transformer (arXiv 1807.03819) whose nodes attend along graph edges.

    The first state of a node is the embedding of its kind, or a linear map of its features. One
    step is repeated until the node halts. The logits of a node are a linear map of its final state
    :math:`x_i`. The logits of a graph are a linear map of the mean state of its nodes. The logits
    of the in-edges of a node are :math:`\log \mathrm{softmax}_j(W_q x_i \cdot (W_k x_j + W_e
    e_{ij}))`, with the features :math:`e_{ij}` of the edges if they have any.

    Examples
    --------
    >>> import dgl
    >>> config = UniversalGraphTransformerConfig(num_kinds=2, classes=3, d_model=16)
    >>> model = UniversalGraphTransformer(config)
    >>> graph = dgl.add_self_loop(dgl.rand_graph(10, 20))
    >>> output = model(graph, torch.randint(2, (10,)))
    >>> output.logits.shape, output.ponder.steps.shape
    (torch.Size([10, 3]), torch.Size([10]))
    """

    config_class = UniversalGraphTransformerConfig
    config: UniversalGraphTransformerConfig
    value_mean: Tensor  # `(classes,)`, with the target "values"
    value_scale: Tensor

    def __init__(self, config: UniversalGraphTransformerConfig) -> None:
        super().__init__(config)
        self.auxiliary: nn.Module | None = None
        if config.layer == "registers":
            self.encoder = _register_recurrence(config)
        else:
            self._add_layers(config)
            self.reset_parameters()

    def _add_layers(self, config: UniversalGraphTransformerConfig) -> None:
        """Add the layers of a model with learned states: embedding, encoder and answers."""
        if config.num_feats:
            self.embedding: nn.Module = nn.Linear(config.num_feats, config.d_model)
        else:
            self.embedding = nn.Embedding(config.num_kinds, config.d_model)
        has_norm = config.input_norm and config.num_feats > 0
        self.input_norm = nn.LayerNorm(config.d_model) if has_norm else nn.Identity()
        options: dict[str, Any] = {"attention_layer": partial(_neighbour_layer, config)}
        if config.quantize:
            options["quantize"] = Quantized(config.quantize, config.quantize_noise)
        if config.initial_noise:
            later = [InputNoise(config.noise, config.noise_on)] if config.noise else []
            options["noise"] = [InputNoise(config.initial_noise, "first"), *later]
        self.encoder = make_recurrence(config, **options)
        if config.depth_modulus:
            self.auxiliary = nn.Linear(config.d_model, config.depth_modulus)
        if config.answer_at == "edge":
            self.query = nn.Linear(config.d_model, config.d_model)
            self.key = nn.Linear(config.d_model, config.d_model)
            if config.edge_feats:
                self.edge = nn.Linear(config.edge_feats, config.d_model, bias=False)
        else:
            self.output = nn.Linear(config.d_model, config.classes)
        if config.answer_kind == "values":  # the mean and the standard deviation of training labels
            self.register_buffer("value_mean", torch.zeros(config.classes))
            self.register_buffer("value_scale", torch.ones(config.classes))

    def forward(
        self,
        graph: DGLGraph | EdgeLayout | Tensor,
        nodes: Tensor,
        *,
        positions: Tensor | None = None,
        edge_weights: Tensor | None = None,
        edge_feats: Tensor | None = None,
        get_attention: bool = False,
        get_steps: bool = False,
    ) -> GraphOutput:
        """Compute the logits of the nodes, of the edges or of the graphs, as configured.

        Parameters
        ----------
        graph : DGLGraph, EdgeLayout or Tensor
            A graph, or a batch of graphs; or the edges of one graph, `(2, E)` int64, as PyG's
            `edge_index`. With attention, each node needs an in-edge; self-loops provide one.
        nodes : Tensor
            `(N,)` int64, the kind of each node; or `(N, num_feats)`, its features.
        positions : Tensor, optional
            `(N,)` or `(N, k)`, coordinates of each node.
        edge_weights : Tensor, optional
            `(E,)`, for the layer "attention"; an edge of weight 2 counts like two edges, and one
            of weight 0 like none.
        edge_feats : Tensor, optional
            `(E, edge_feats)`, for a model whose configuration has `edge_feats`; real numbers are
            converted to the dtype of the model, which is float64 for registers.
        get_attention : bool
            Also keep the attention weights, as `output.ponder.attention`.
        get_steps : bool
            Also return the states of the active nodes after every step, as `output.steps`;
            `read_out` maps them to logits.

        Raises
        ------
        TypeError, ValueError
            If a kind does not exist, features of nodes or edges do not have the shape or dtype of
            the configuration, edge features are missing or not wanted, or edge weights are negative
            or given to a layer other than "attention". `AdaptiveRecurrence` raises further errors.
        """
        options: dict[str, Any] = {"get_attention": get_attention, "get_steps": get_steps}
        options |= {"edge_weights": edge_weights, "edge_feats": edge_feats}
        return self._run(self.encoder, graph, nodes, positions=positions, **options)

    def resume(
        self,
        ponder: Ponder,
        graph: DGLGraph | EdgeLayout | Tensor,
        nodes: Tensor,
        *,
        changed: Tensor | None = None,
        edges_into: Tensor | None = None,
        **options: Any,
    ) -> GraphOutput:
        """Continue an event-driven run after the graph, or some of its nodes, have changed.

        Only nodes that the changes affect are computed again. See `AdaptiveRecurrence.resume`.

        Parameters
        ----------
        ponder : Ponder
            `output.ponder` of the earlier call.
        graph, nodes
            The graph after the changes and all its nodes, as in `forward`.
        changed : Tensor, optional
            Ids, int64, of nodes with a new kind, new features or a new position.
        edges_into : Tensor, optional
            Ids, int64, of the destinations of edges that were added or removed.
        **options
            The other arguments of `forward`.

        Raises
        ------
        TypeError, ValueError
            If the rule in use is not `EventDriven`, or `ponder` or an id does not fit the graph.
        """
        resume = partial(self.encoder.resume, ponder, changed=changed, edges_into=edges_into)
        return self._run(resume, graph, nodes, **options)

    def _run(
        self,
        recurrence: Callable[..., tuple[Any, ...]],
        graph: DGLGraph | EdgeLayout | Tensor,
        nodes: Tensor,
        edge_weights: Tensor | None = None,
        edge_feats: Tensor | None = None,
        **options: Any,
    ) -> GraphOutput:
        if isinstance(graph, Tensor):
            graph = from_edge_index(graph, len(nodes))
        check_same_nodes(graph)
        for name, rows in (("edge_weights", edge_weights), ("edge_feats", edge_feats)):
            if rows is not None:
                check_tensor(rows, name)
        layout = as_layout(graph).to(self.device)
        if edge_weights is not None:
            options["edge_bias"] = self._log_weights(edge_weights)
        if edge_feats is not None:
            options["edge_feat"] = _cast(edge_feats, next(self.encoder.parameters()))
        states, ponder, *more = recurrence(layout, self._first_states(nodes), **options)
        steps = more[-1] if options.get("get_steps") else None
        return GraphOutput(self.read_out(layout, states, edge_feats), ponder, steps)

    def _log_weights(self, weights: Tensor) -> Tensor:
        """Return the logarithms of the weights of edges, which attention adds to its scores."""
        if (layer := self.config.layer) != "attention":
            raise ValueError(f"edge_weights need layer='attention', but the model has {layer=}")
        if weights.device.type == "cpu" and bool((weights < 0).any()):
            raise ValueError(f"edge_weights must not be negative; got {weights.min().item():g}")
        return _cast(weights, next(self.encoder.parameters())).log()

    @torch.no_grad()
    def predict(self, graphs: Any) -> list[GraphPrediction]:
        """Return the predictions for one graph, several or a dataset, in evaluation mode.

        A graph is a `DGLGraph` with its features in `ndata["feat"]`, a `Data` of PyG with its
        features in `x`, or a graph of networkx with `feat` of its nodes: numbers, or the name of a
        kind in the model's vocabulary "node". Labels are not needed. Nodes without a self-loop get
        one, as in training with `graphut train graphs`. Raise `TypeError` or `ValueError` if a
        graph does not fit.
        """
        inputs = [as_input(graph, self.config, self.kind_names) for graph in graph_list(graphs)]
        predictions: list[GraphPrediction] = []
        largest = max((len(graph.nodes) for graph in inputs), default=1)
        with self.evaluating(), until_quiescent(self, largest):
            size = max(1, _MOST_NODES // max(1, largest))  # graphs in one call
            for start in range(0, len(inputs), size):
                group = inputs[start : start + size]
                union = JoinedGraphs.join(group)
                output = self(union.layout, union.nodes, **union.options)
                predictions += self.predictions_of(group, output)
        return predictions

    @property
    def kind_names(self) -> Sequence[str]:
        """The names of the kinds of nodes, in the vocabulary "node"; empty without one."""
        return self.vocabularies["node"].symbols if "node" in self.vocabularies else ()

    @property
    def class_names(self) -> Sequence[str]:
        """The names of the classes or values, in the vocabulary "answer"; empty without one."""
        return self.vocabularies["answer"].symbols if "answer" in self.vocabularies else ()

    def predictions_of(self, group: Sequence[Any], output: GraphOutput) -> list[GraphPrediction]:
        """Split the output for several graphs into the predictions for each."""
        nodes, at = [len(graph.nodes) for graph in group], self.config.answer_at
        answers = {
            "node": nodes,
            "graph": [1] * len(nodes),
            "edge": [graph.edges.shape[1] for graph in group],
        }[at]
        logits = output.logits.float().cpu().split(answers)
        return [*map(self._prediction, group, logits, output.ponder.steps.cpu().split(nodes))]

    def _prediction(self, graph: GraphInput, logits: Tensor, steps: Tensor) -> GraphPrediction:
        labels: list[Any] = []
        shares = values = None
        names = self.class_names or range(self.config.classes)
        if self.config.answer_at == "edge":
            labels, shares = [None] * len(steps), logits.exp()
            order = logits.argsort()
            order = order[logits[order] > -torch.inf]
            for source, target in graph.edges[:, order.numpy()].T.tolist():
                labels[target] = source  # of several in-edges, the last and likeliest stays
        elif self.config.answer_kind == "values":
            values = logits
        else:
            labels = [names[index] for index in logits.argmax(1).tolist()]
            shares = logits.softmax(1)
        return GraphPrediction(labels, shares, values, steps)

    def read_out(
        self, layout: EdgeLayout, states: Tensor, edge_feats: Tensor | None = None
    ) -> Tensor:
        """Map states `(N, d)` to logits of nodes or graphs, or to log-probabilities of edges.

        `edge_feats`, as in `forward`, is used only by a model that predicts edges.
        """
        if self.config.layer == "registers":
            return self._registers.edge_logits(layout, states, edge_feats)
        if self.config.answer_at == "edge":
            return self._edge_logits(layout, states, edge_feats)
        if self.config.answer_at == "graph":
            states = _graph_means(layout, states)
        if self.config.answer_kind == "values":
            return self.output(states) * self.value_scale + self.value_mean
        return self.output(states)

    def _edge_logits(self, layout: EdgeLayout, states: Tensor, edge_feats: Tensor | None) -> Tensor:
        others = states if layout.halo is None else layout.halo.fetch(states)
        target, source, edge = layout.in_edges()
        keys = self.key(others)[source]
        if edge_feats is not None:
            keys = keys + self.edge(_cast(edge_feats, self.edge.weight)[edge])
        pairs = self.query(states)[target] * keys
        wide = torch.promote_types(pairs.dtype, torch.float32)
        scores = pairs.to(wide).sum(-1) / self.config.d_model**0.5
        in_order = scores - row_log_sums(scores, target, layout.num_dst)[target]
        return torch.empty_like(in_order).index_copy(0, edge, in_order)

    @property
    def _registers(self) -> RegisterMessages:
        return cast(RegisterMessages, cast(Any, self.encoder.step).attention)

    def _first_states(self, nodes: Tensor) -> Tensor:
        check_tensor(nodes, "nodes")
        if not self.config.num_feats:
            if nodes.dtype not in (torch.int64, torch.int32):
                raise TypeError(f"nodes are {nodes.dtype}, but kinds of nodes must be int64")
            reason = "does not exist; the model has kinds"
            self._check_tokens(nodes, self.config.num_kinds, "node kind", reason)
            if self.config.layer == "registers":
                return self._registers.first_states(nodes > 0)
            return self._embed(cast(nn.Embedding, self.embedding), nodes.to(self.device))
        nodes = nodes.to(self.device)
        if nodes.dim() != 2 or nodes.shape[1] != self.config.num_feats:
            raise ValueError(
                f"nodes must have shape (N, {self.config.num_feats}), the features of each node; "
                f"got shape {tuple(nodes.shape)}"
            )
        check_feat(nodes, "source", len(nodes), self.config.num_feats, self.embedding)
        nodes = dropout(nodes, self.config.input_dropout, self.training)
        return self.dropout(self.input_norm(self.embedding(nodes)))


def _cast(rows: Tensor, like: Tensor) -> Tensor:
    """Return real numbers of edges, which files hold as float64, in the dtype of a parameter."""
    return rows.to(like.device, like.dtype if rows.is_floating_point() else rows.dtype)


def _graph_means(layout: EdgeLayout, states: Tensor) -> Tensor:
    """Return the mean state of the nodes of each graph, `(graphs, d)`."""
    empty = layout.dst_lengths == 0
    if bool(empty.any()):
        index = int(empty.nonzero()[0])
        raise ValueError(f"graph {index} of the batch has no nodes to answer from")
    lengths = layout.dst_lengths.to(states.device)
    # In float32: a sum of many bfloat16 numbers stops growing.
    wide = torch.promote_types(states.dtype, torch.float32)
    mean = torch.segment_reduce(states.to(wide), "mean", lengths=lengths)
    if layout.halo is not None:
        mean = layout.halo.sum(mean * layout.num_dst) / layout.halo.num_nodes
    return mean.to(states.dtype)


def _neighbour_layer(
    config: UniversalGraphTransformerConfig,
) -> ConvAsAttention | MessageAggregation | MultiHeadAttention:
    """Return the layer, of graphut or of DGL, that aggregates the states of neighbours."""
    feats, heads = config.d_model, config.num_heads
    if config.layer == "gat":
        dropped = config.attention_dropout
        return ConvAsAttention(dgl.nn.GATConv(feats, feats // heads, heads, 0.0, dropped), feats)
    if config.layer == "gin":
        return ConvAsAttention(dgl.nn.GINConv(nn.Linear(feats, feats)), feats)
    aggregators = config.messages.split("+")
    if config.layer == "none":
        return MessageAggregation(feats, aggregators)
    attention = make_attention(config, edge_dim=config.edge_feats or None)
    if config.messages == "none":
        return attention
    return MessageAggregation(feats, aggregators, attention=attention)


def _register_recurrence(config: UniversalGraphTransformerConfig) -> AdaptiveRecurrence:
    """Return a recurrence whose nodes hold registers; those of a kind above 0 are the starts."""
    messages: Any = RegisterMessages()
    return AdaptiveRecurrence(
        UniversalTransformerStep(messages, None, norm=None, residual=False),
        evaluation_rule=parse_rule(config.evaluation_rule) if config.evaluation_rule else None,
        max_steps=config.max_steps,
        position_signal=None,
        step_signal=None,
        inject_input=True,
    )
