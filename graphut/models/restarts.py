"""Runs of disjoint copies of graphs from noisy first states, with averaged answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.models.config.restarts import Restarts
from graphut.models.graph_inputs import JoinedGraphs
from graphut.models.outputs import GraphOutput
from graphut.nn import EventDriven
from graphut.nn.noise import DrawnNoise


def run_restarts(
    model: Any, one: JoinedGraphs, graphs: Sequence[Any], restarts: Restarts
) -> GraphOutput:
    """Run copies of graphs in a `UniversalGraphTransformer`, and return the averaged output.

    `one` is the union of `graphs`. In the record, updates are sums over the copies.

    Raise `ValueError` if the model's rule is not `EventDriven`, if the model has registers or
    predicts values, or if the graph is divided among processes.
    """
    config, rule, copies = model.config, model.evaluation_rule, restarts.restarts
    if copies == 1:
        return model(one.layout, one.nodes, **one.options)
    if not isinstance(rule, EventDriven) or config.layer == "registers":
        raise ValueError(
            f"{restarts} needs states that come to rest, with the rule event_driven; the model has "
            f"the rule {rule} and layer={config.layer!r}"
        )
    if config.answer_kind == "values" or graphs[0].part is not None:
        what = "values" if graphs[0].part is None else "answers for a divided graph"
        raise ValueError(f"{restarts} averages the probabilities of classes, not {what}")
    union = JoinedGraphs.join([*graphs] * copies)
    states, quantize = model._first_states(union.nodes), model.encoder.quantize
    first, *others = (states if quantize is None else quantize.round(states)).chunk(copies)
    place = torch.cat([torch.arange(len(graph.nodes)) for graph in graphs]).to(model.device)
    noise = DrawnNoise(restarts.restart_noise, restarts.restart_seed)
    shown = torch.cat([first, *(noise.add(x, place, k) for k, x in enumerate(others, 1))])
    output = model.resume(shown, union.layout, union.nodes, **union.options)
    ponder, layout = output.ponder, one.layout.to(model.device)
    assert ponder.quiescent is not None and ponder.rounds is not None
    rest, rounds, steps = (
        each.unflatten(0, (copies, -1)) for each in (ponder.quiescent, ponder.rounds, ponder.steps)
    )
    ponder = replace(
        ponder,
        layouts=(layout,) * len(ponder.layouts),
        quiescent=rest.any(0),
        rounds=rounds.amax(0),
        steps=steps.sum(0),
        shown=None,
        awake=None,
        last_change=None,
    )
    each = output.logits.unflatten(0, (copies, -1))
    logits, agreement = _average(model, layout, each, rest | ~rest.any(0))
    return GraphOutput(logits, ponder, agreement=agreement)


def _average(
    model: Any, layout: EdgeLayout, logits: Tensor, counts: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the averaged logits, and the agreement of each answer.

    `logits` are the outputs of all copies, `(copies, ...)`, and `counts`, `(copies, graphs)`, says
    which copies count.
    """
    at, kind = model.config.answer_at, model.config.answer_kind
    answer_graph = torch.arange(counts.shape[1], device=counts.device)
    if at != "graph":
        answer_graph = answer_graph.repeat_interleave(layout.dst_lengths.to(counts.device))
    graph, shares = answer_graph, logits.exp() if at == "edge" else logits.softmax(-1)
    if at == "edge":
        target, _, edge = layout.in_edges()
        graph = torch.empty_like(edge).index_copy(0, edge, answer_graph[target])
    elif kind == "labels":
        shares = logits.sigmoid()
    weights = counts[:, graph].to(shares.dtype)
    weights = weights.view(*weights.shape, *[1] * (shares.dim() - 2))
    mean = (shares * weights).sum(0) / weights.sum(0)
    tiny = torch.finfo(mean.dtype).tiny
    averaged = mean.logit() if kind == "labels" else mean.clamp_min(tiny).log()
    if at == "edge":
        # Edges from equal states are equally likely: a copy agrees if no other edge is likelier.
        best = [_largest(layout, each) for each in logits]
        is_best = averaged[edge] == _largest(layout, averaged)[target]
        none = torch.full_like(layout.in_degrees, -1)
        chosen = none.scatter_reduce(0, target[is_best], edge[is_best], "amax")
        agrees = torch.stack([each[chosen] == x for each, x in zip(logits, best, strict=True)])
    elif kind == "labels":
        agrees = ((logits > 0) == (averaged > 0)).all(2)
    else:
        agrees = logits.argmax(-1) == averaged.argmax(-1)
    counted = counts[:, answer_graph]
    return averaged, (agrees & counted).sum(0) / counted.sum(0)


def _largest(layout: EdgeLayout, logits: Tensor) -> Tensor:
    """Return the largest logit of the in-edges of each node."""
    return torch.segment_reduce(logits[layout.in_edges()[2]], "max", lengths=layout.in_degrees)
