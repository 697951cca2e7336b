"""Runs of disjoint copies of graphs from noisy first states, with joint answers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.models.config import Restarts
from graphut.models.graph_inputs import JoinedGraphs, limit_rounds
from graphut.models.outputs import GraphOutput
from graphut.nn import EventDriven
from graphut.nn.noise import DrawnNoise


def run_restarts(
    model: Any, one: JoinedGraphs, graphs: Sequence[Any], restarts: Restarts
) -> GraphOutput:
    """Run copies of graphs in a `UniversalGraphTransformer`, and return the joint output.

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
    start = states if quantize is None else quantize.round(states)
    place = torch.cat([torch.arange(len(graph.nodes)) for graph in graphs]).to(model.device)
    shown, late = start, restarts.restart_rounds - 1
    for t in range(restarts.restart_rounds):
        if t:
            with limit_rounds(model, 1):
                output = model.resume(shown, union.layout, union.nodes, **union.options)
            shown = output.ponder.shown
        noise = DrawnNoise(restarts.restart_noise, restarts.restart_seed ^ t << 32)
        others = enumerate(shown.chunk(copies)[1:], 1)
        shown = torch.cat([start[: len(place)], *(noise.add(x, place, k) for k, x in others)])
    output = model.resume(shown, union.layout, union.nodes, **union.options)
    ponder, layout = output.ponder, one.layout.to(model.device)
    assert ponder.quiescent is not None and ponder.rounds is not None
    rest, rounds, steps = (
        each.unflatten(0, (copies, -1)) for each in (ponder.quiescent, ponder.rounds, ponder.steps)
    )
    rounds[1:] += late
    steps[1:] += late
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
    surest = restarts.restart_keep == "surest"
    logits, agreement = _join(model, layout, each, rest | ~rest.any(0) | surest, surest)
    return GraphOutput(logits, ponder, agreement=agreement)


def _join(
    model: Any, layout: EdgeLayout, logits: Tensor, counts: Tensor, surest: bool
) -> tuple[Tensor, Tensor]:
    """Return the logits, averaged or of the surest copy, and the agreement of each answer.

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
    tiny, kept = torch.finfo(shares.dtype).tiny, counts
    if surest:
        if at == "edge":
            likely = torch.stack([_largest(layout, each) for each in shares])
        else:
            likely = shares.amax(-1) if kind == "class" else shares.maximum(1 - shares).prod(-1)
        sums = torch.zeros(counts.shape, dtype=likely.dtype, device=likely.device)
        sums = sums.index_add(1, answer_graph, likely.clamp_min(tiny).log())
        kept = torch.zeros_like(counts).scatter(0, sums.argmax(0)[None], True)
    weights = kept[:, graph].to(shares.dtype)
    weights = weights.view(*weights.shape, *[1] * (shares.dim() - 2))
    mean = (shares * weights).sum(0) / weights.sum(0)
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
