"""The adaptive recurrence with masks: every node computes in every step.

This reference implementation uses the layers of an `AdaptiveRecurrence`, with dense attention, but
shares no code with its loop. The tests compare the results of both.
"""

from copy import copy
from typing import Any, TypeAlias

import torch
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.nn.hetero_attention import HeteroAttention
from graphut.nn.layers import MultiHeadAttention, StepBatchNorm
from graphut.nn.messages import MessageAggregation
from graphut.nn.noise import Noise, draw_noise, with_noise
from graphut.nn.recurrence import AdaptiveRecurrence
from graphut.nn.rules import EventDriven
from graphut.nn.rules.base import BatchIndex, StepRows, batch_index
from graphut.nn.step import UniversalTransformerStep

Graph: TypeAlias = DGLGraph | EdgeLayout


def dense_recurrence(
    layer: AdaptiveRecurrence,
    graph: Graph,
    feat: Tensor,
    *,
    positions: Tensor | None = None,
    cross: tuple[Graph, Tensor] | None = None,
    **edges: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute the results of `layer(graph, feat, ...)` with dense masks and without dropout.

    `edges` are the options `edge_bias`, `edge_feat` and `edge_weight` of the layer.

    Return the output `(N, d)`, the number of steps `(N,)`, the ACT remainder `(N,)`, and the mean
    ponder cost.
    """
    drawn, state, place = _begin(layer, feat, positions)
    noise, repeated, rule = torch.zeros_like(feat), layer.steps, layer.active_rule
    layout = as_layout(graph)
    active = torch.ones(feat.shape[0], dtype=torch.bool)
    memory = rule.start(state, batch_index(layout))
    remainder, cost = feat.new_zeros(
        2, feat.shape[0], dtype=torch.promote_types(feat.dtype, torch.float32)
    )
    steps = torch.zeros(feat.shape[0], dtype=torch.int64)
    out, shown, combined = torch.zeros_like(feat), feat, torch.zeros_like(feat)

    for t in range(min(rule.min_steps, 1), layer.max_steps + 1):
        anew = (steps >= t - 1) | (layer.active_halted == "running")
        redrawn = with_noise(drawn, "every_step", torch.zeros_like(feat), step=t)
        noise = torch.where(anew[:, None], redrawn, noise)
        now = state + place + noise
        if layer.step_signal is not None and t:
            now = now + layer.step_signal(torch.tensor([t])).to(feat.dtype)
        moves = active if layer.active_halted in ("frozen", "stale") else torch.ones_like(active)
        if layer.active_halted == "frozen" or t <= 1:
            moves = steps >= t - 1  # the step after its last is the last to be shown
        shown = torch.where(moves[:, None], now, shown)
        goes_on = active | (layer.active_halted == "running")
        step = repeated[(t - 1) % len(repeated)]
        if t == 0:  # nodes may halt before the first step
            now = new = state
        else:
            new, combined = _step(step, layout, edges, now, shown, combined, goes_on, cross, t)
            new = _quantized(layer, drawn, new, t)
        source = now if rule.halt_from == "input" else new
        p = layer.halting(source, None, t) if layer.halting and rule.uses_probability else None
        last = t == layer.max_steps
        rows = StepRows(now, new, p, t, last)
        # The memory of halted nodes is not used again.
        decision, memory = rule.decide(memory, rule.measure(memory, rows), rows)
        halts = active & (decision.halts | last)
        if rule.weighting == "last" or decision.weight is None:
            candidate = new
        elif rule.weighting == "ap-gcn":
            share = decision.weight.to(feat.dtype)[:, None]
            stops, extra = (decision.halts | last)[:, None], ~decision.halts[:, None]
            candidate = out + share * new + (1 - share) * now
            candidate = torch.where(stops, candidate / (t + extra), candidate)
        else:
            share = decision.weight.to(feat.dtype)[:, None]
            candidate = share * new + (1.0 if rule.weighting == "sum" else 1 - share) * out
        out = torch.where(active[:, None], candidate, out)
        steps = steps + active * (t > 0)
        state = torch.where(goes_on[:, None], new, state)
        if decision.remainder is not None:
            remainder = torch.where(halts, decision.remainder, remainder)
        if decision.cost is not None:
            cost = torch.where(halts, decision.cost, cost)
        active = active & ~halts
    return repeated[-1].readout(out), steps, remainder, cost.mean()


def dense_event_driven(
    layer: AdaptiveRecurrence,
    graph: Graph,
    feat: Tensor,
    *,
    positions: Tensor | None = None,
    shown: Tensor | None = None,
    frontier: Tensor | None = None,
    **edges: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Compute the results of a layer with the rule `EventDriven`, without dropout.

    Every node computes in every round. A mask discards the result for nodes that the rule does not
    update or that change too little.

    To continue an earlier run, as `AdaptiveRecurrence.resume` does, pass `shown`, `(M, d)`, the
    states at its end, and `frontier`, the ids of the nodes to update in the first round. `edges`
    are as in `dense_recurrence`.

    Return five tensors: the output `(N, d)`; for each node, `(N,)`, the number of its updates and
    the last round that changed its state; for each graph, `(G,)`, the number of its rounds and
    whether no node was left to update at the end.
    """
    rule, layout = layer.active_rule, as_layout(graph)
    assert isinstance(rule, EventDriven)
    drawn, state, place = _begin(layer, feat, positions)
    if shown is not None:
        state = torch.cat([shown, state[len(shown) :]])
    step = layer.steps[0]
    num_dst, members = layout.num_dst, batch_index(layout)
    reads = torch.zeros(num_dst, layout.num_src).double()
    reads[layout.in_edges()[:2]] = 1.0
    rounds = torch.zeros(members.num_graphs, dtype=torch.int64)
    updates, last_change = torch.zeros(2, num_dst, dtype=torch.int64)
    awake = torch.ones(num_dst, dtype=torch.bool)
    if frontier is not None:
        awake = torch.zeros_like(awake).index_fill(0, frontier, True)
    for t in range(1, (rule.max_rounds or layer.max_steps) + 1):
        if not awake.any():
            break
        now = with_noise(drawn, "every_step", state + place, step=t)
        rows = now[:num_dst]
        new, _ = _step(step, layout, edges, rows, now, rows, awake, None)
        new, before = _quantized(layer, drawn, new, t), state[:num_dst]
        distance = (new - before).square().mean(1).sqrt()
        if step.norm == "pre":
            size = before.square().mean(1).sqrt()
            distance = distance / size.clamp_min(torch.finfo(size.dtype).eps)
        has_moved = distance > rule.tol if rule.tol else (new != before).any(1)
        changed = awake & has_moved
        updates = updates + awake
        last_change = torch.where(changed, t, last_change)
        rounds = rounds + _any_by_graph(awake, members)
        state = torch.cat([torch.where(changed[:, None], new, before), state[num_dst:]])
        awake = changed | (reads[:, :num_dst] @ changed.double() > 0)
    quiescent = ~_any_by_graph(awake, members)
    return step.readout(state[:num_dst]), updates, last_change, rounds, quiescent


def _any_by_graph(nodes: Tensor, members: BatchIndex) -> Tensor:
    """Return for each graph whether the mask `nodes` is True for any of its nodes, `(G,)`."""
    count = torch.zeros(members.num_graphs, dtype=torch.int64)
    return count.index_add(0, members.graph, nodes.long()) > 0


def _begin(
    layer: AdaptiveRecurrence, feat: Tensor, positions: Tensor | None
) -> tuple[Noise, Tensor, Tensor]:
    """Return the noise of a call, the initial states, and the encodings added in each step."""
    drawn, place = draw_noise(layer), torch.zeros_like(feat)
    if positions is not None and layer.position_signal is not None:
        place = layer.position_signal(positions).to(feat.dtype)
    if layer.inject_input:
        place = place + feat
    first = feat if layer.quantize is None else layer.quantize.round(feat)
    return drawn, with_noise(drawn, "first", first), place


def _quantized(layer: AdaptiveRecurrence, drawn: Noise, new: Tensor, t: int) -> Tensor:
    if layer.quantize is None:
        return new
    smooth = with_noise(drawn, "quantized", new, step=t).tanh()
    levels = layer.quantize.levels
    return (smooth * levels).round().detach() / levels + (smooth - smooth.detach())


def _step(
    step: UniversalTransformerStep,
    layout: EdgeLayout,
    edges: dict[str, Tensor | None],
    now: Tensor,
    shown: Tensor,
    combined: Tensor,
    runs: Tensor,
    cross: tuple[Graph, Tensor] | None,
    t: int = 1,
) -> tuple[Tensor, Tensor]:
    """Return the new states, and the inputs of the transition: `combined`, updated by `runs`.

    `now` are the step's inputs, `shown` the states that attention reads, `runs` a mask of nodes.
    """
    pre = step.norm == "pre"

    def add(rows: Tensor, change: Tensor, norm: torch.nn.Module) -> Tensor:
        change = rows + change if step.residual else change
        if isinstance(norm, StepBatchNorm):
            return _batch_normed(norm, change, runs, t)
        return change if pre else norm(change)

    def ready(rows: Tensor, norm: torch.nn.Module) -> Tensor:
        return norm(rows) if pre else rows

    norm = step.attention_norm
    read = _attend(step.attention, layout, ready(now, norm), ready(shown, norm), **edges)
    rows = add(now, read, norm)
    rows = rows if step.activation is None else step.activation(rows)
    if step.cross_attention is not None and step.cross_norm is not None and cross is not None:
        query = ready(rows, step.cross_norm)
        read = _attend(step.cross_attention, as_layout(cross[0]), query, cross[1])
        rows = add(rows, read, step.cross_norm)
    if step.transition is None:
        return rows, combined
    norm = step.transition_norm
    combined = torch.where(runs[:, None], ready(rows, norm), combined)
    change = step.transition(layout, combined)
    return add(rows, change, norm), combined


def _batch_normed(norm: StepBatchNorm, rows: Tensor, runs: Tensor, t: int) -> Tensor:
    """Normalise rows by the statistics of the rows in the mask `runs`, or by the running ones."""
    t = min(t, len(norm.weight)) - 1
    mean, variance = norm.running_mean[t], norm.running_var[t]
    if norm.training and int(runs.sum()) > 1:
        mean, variance = rows[runs].mean(0), rows[runs].var(0, unbiased=False)
    return (rows - mean) / (variance + norm.eps).sqrt() * norm.weight[t] + norm.bias[t]


def _attend(layer: Any, layout: EdgeLayout, rows: Tensor, shown: Tensor, **edges: Any) -> Tensor:
    of = (layout,) if isinstance(layer, HeteroAttention) else ()
    out: Tensor = _plain(layer)(layout, rows, stored=layer.project(shown, *of), **edges)
    return out


def _plain(layer: Any) -> Any:
    """Return a copy of an attention layer with the dense backend and without dropout."""
    plain = copy(layer)
    if isinstance(layer, MultiHeadAttention):
        plain.attn_drop, plain.allow_zero_in_degree = 0.0, True
    if isinstance(layer, MultiHeadAttention | HeteroAttention):
        plain.backend = "dense"
    elif isinstance(layer, MessageAggregation):
        plain._modules = {**layer._modules, "attention": _plain(layer.attention)}
    return plain
