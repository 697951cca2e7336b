"""One call of an adaptive recurrence: check the arguments, repeat the step, build the record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.compiler import is_compiling

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.functorch import is_capturing
from graphut.nn.attention import AttentionRecord, MultiHeadAttention
from graphut.nn.context import GraphContext
from graphut.nn.finite_checks import FiniteChecks
from graphut.nn.frontier import HaltingFrontier
from graphut.nn.gpu import gpu_frontier
from graphut.nn.gpu.async_checks import AsyncFiniteChecks
from graphut.nn.hooked_step import HookedStep
from graphut.nn.input_checks import check_feat, check_same_nodes, check_tensor
from graphut.nn.loop_state import FrontierRows, LoopOutput, LoopState, Recurrence, steps_of
from graphut.nn.masked import MaskedFrontier
from graphut.nn.ponder import Ponder
from graphut.nn.rules import BatchIndex, EventDriven, HaltingRule
from graphut.nn.rules.base import FixedDepth, batch_index
from graphut.nn.step import UniversalTransformerStep
from graphut.nn.transition import SeparableConvTransition
from graphut.nn.waking import Start, WakingFrontier, check_event_driven

Graph: TypeAlias = "DGLGraph | EdgeLayout"


def call_recurrence(
    layer: Recurrence,
    graph: Graph | Sequence[Graph],
    feat: Tensor,
    *,
    start: Start | None = None,
    positions: Tensor | None = None,
    cross: tuple[Graph, Tensor] | None = None,
    graph_ids: Tensor | None = None,
    get_attention: bool = False,
    get_steps: bool = False,
    **of_edges: Any,
) -> tuple[Any, ...]:
    """Return the results of `AdaptiveRecurrence.forward`, or of `resume` if `start` is given."""
    rule = layer.active_rule
    if isinstance(rule, EventDriven):  # the layer may have changed since the rule was set
        check_event_driven(rule, layer.step, layer.halting, layer.step_signal)
    context = _context(layer, graph, feat, cross, of_edges)
    context.get_attention, halo = get_attention, context.layout.halo
    nodes = context.num_src if halo is None else context.num_dst
    if positions is not None:
        check_tensor(positions, "positions")
        if positions.shape[:1] != (nodes,) or positions.dim() > 2:
            raise ValueError(
                f"positions must be ({nodes},), one for each node, or ({nodes}, coordinates); got "
                f"shape {tuple(positions.shape)}"
            )
    rows: list[FrontierRows] | None = [] if get_attention or get_steps else None
    steps: Any = steps_of(layer)
    again = layer.checkpoint_steps and torch.is_grad_enabled() and not is_compiling()
    if again or any(step.is_hooked for step in steps):
        steps = [HookedStep(step, checkpointed=again) for step in steps]
    checks, halting_frontier = _fast_paths(layer, steps, context, feat, record=rows is not None)
    checks.check_features(feat)
    if halo is not None:
        _check_part(steps_of(layer), start, graph_ids)
    exchange = None if halo is None else halo.begin()
    state = LoopState(
        layer,
        context,
        feat,
        None if positions is None else positions.to(feat.device, non_blocking=True),
        context.blocks[-1].num_dst if context.blocks else context.num_dst,
        steps=steps,
        batch=_batch(rule, context, graph_ids),
        checks=checks,
        rows=rows,
        exchange=exchange,
    )
    found = run_loop(state, halting_frontier=halting_frontier, start=start)
    checks.close()
    if exchange is not None:
        found, rows = exchange.close((found, rows))
    ponder = _ponder(layer, context, found, rows)
    asked = ([context.weights] if get_attention else []) + ([rows] if get_steps else [])
    return found.out, ponder, *asked


def run_loop(
    state: LoopState,
    *,
    halting_frontier: Callable[[LoopState], HaltingFrontier] = HaltingFrontier,
    start: Start | None = None,
) -> LoopOutput:
    """Repeat the step until no node is active, and return the results of all nodes.

    `halting_frontier` creates the frontier (set of active nodes) under rules whose nodes halt for
    good. With the rule `EventDriven`, `start` has the states and nodes from which a run continues.
    """
    rule, max_steps = state.rule, state.layer.max_steps
    runs_all = state.layer.halted == "running" or isinstance(rule, FixedDepth)
    frontier: HaltingFrontier | MaskedFrontier | WakingFrontier
    if isinstance(rule, EventDriven):
        frontier = WakingFrontier(state, rule, start)
        max_steps = rule.max_rounds or max_steps
    elif runs_all or not state.context.num_dst:
        frontier = MaskedFrontier(state)
    else:
        frontier = halting_frontier(state)
    for t in range(1, max_steps + 1):
        if not state.any_active(frontier.num_active):
            break
        before = frontier.refresh_keys_and_values(t)
        after = state.update(before, t)
        frontier.end_step(before, after, t)
    result = frontier.result()
    return result._replace(out=state.readout(result.out))


def _context(
    layer: Recurrence,
    graph: Graph | Sequence[Graph],
    feat: Tensor,
    cross: tuple[Graph, Tensor] | None,
    of_edges: dict[str, Any],
) -> GraphContext:
    """Check graph and features; return a `GraphContext` with the edge options `of_edges`."""
    step, blocks = steps_of(layer)[0], []
    if isinstance(graph, Sequence):
        blocks = _block_layouts(layer, graph, **of_edges)
        blocks = [block.to(feat.device) for block in blocks]
        context = step.context(blocks[0], cross)
    else:
        check_same_nodes(graph)
        context = step.context(as_layout(graph).to(feat.device), cross)
    context.blocks = blocks
    context.of_edges = of_edges
    num_src, num_dst = context.layout.num_src, context.layout.num_dst
    if num_dst > num_src:
        raise ValueError(
            f"the graph has {num_dst} destination and {num_src} source nodes; in a recurrence "
            "every destination must be a source too"
        )
    # With the nodes of a part, those of other processes have no features here.
    nodes = num_src if context.layout.halo is None else num_dst
    check_feat(feat, "source", nodes, step.attention.in_feats[1], step.attention)
    return context


def _check_part(steps: Sequence[Any], start: Start | None, graph_ids: Tensor | None) -> None:
    """Raise a `ValueError` if a graph divided among processes does not support these settings."""
    wrong = ""
    if start is not None:
        wrong = "resume"
    elif graph_ids is not None:
        wrong = "graph_ids: it is a part of a single graph"
    elif any(isinstance(step.transition, SeparableConvTransition) for step in steps):
        wrong = "a separable convolution, which reads other nodes than in-neighbours"
    elif any(step.cross_attention is not None for step in steps):
        wrong = "a decoder step"
    if wrong:
        raise ValueError(f"a part of a graph does not support {wrong}")


def _block_layouts(
    layer: Recurrence, blocks: Sequence[Graph], **of_edges: Sequence[Tensor] | None
) -> list[EdgeLayout]:
    """Check blocks of DGL's samplers, one for each step, and return their edges as `EdgeLayout`s.

    Each option in `of_edges`, such as `edge_bias`, is None or has one tensor for each block. The
    destinations of a block are its first sources, and they are all sources of the next block. So a
    node has the same id in all blocks.
    """
    if isinstance(layer.active_rule, EventDriven):
        raise ValueError(f"{layer.active_rule} needs one graph, not a list of blocks")
    layouts, step = [as_layout(block) for block in blocks], steps_of(layer)[0]
    if len(blocks) != layer.max_steps:
        raise ValueError(
            f"got {len(blocks)} blocks for max_steps={layer.max_steps}; sample one for each "
            f"step, for example with NeighborSampler([10] * {layer.max_steps})"
        )
    for name, given in of_edges.items():
        if given is not None and len(given) != len(blocks):
            raise ValueError(f"{name} has {len(given)} entries for {len(blocks)} blocks")
    if step.cross_attention is not None:
        raise ValueError("a decoder step needs one graph for all steps, not a list of blocks")
    if isinstance(step.transition, SeparableConvTransition):
        raise ValueError("a convolution needs sentences, which a list of blocks does not have")
    for block in blocks:
        check_same_nodes(block)
    for t, (block, following) in enumerate(pairwise(layouts)):
        if block.num_dst != following.num_src:
            raise ValueError(
                f"block {t} has {block.num_dst} destinations, but block {t + 1} has "
                f"{following.num_src} sources; they must be the same nodes"
            )
    return layouts


def _fast_paths(
    layer: Recurrence,
    steps: Sequence[UniversalTransformerStep],
    context: GraphContext,
    feat: Tensor,
    *,
    record: bool,
) -> tuple[FiniteChecks, Callable[[LoopState], HaltingFrontier]]:
    """Return checks for non-finite values, and a constructor for the frontier (active nodes).

    If all attention layers support it, both work without waiting for the GPU. Otherwise both are
    the usual ones, and `context` gets a key/value table that is written in place, if supported.
    With `record`, the caller reads the states of each step, which excludes both fast paths.
    """
    plain = FiniteChecks(), HaltingFrontier
    by_edge = any(each is not None for each in context.of_edges.values())
    if record or is_capturing() or context.blocks or by_edge or steps[0].is_hooked:
        return plain
    layout, between = context.layout, context.cross_layout
    can_count = not isinstance(layer.active_rule, EventDriven) and layout.halo is None
    for step in steps:
        if not isinstance(step.attention, MultiHeadAttention):
            return plain
        can_count = can_count and step.attention.takes_counts(layout, feat)
        cross = step.cross_attention
        if can_count and between is not None:
            can_count = isinstance(cross, MultiHeadAttention) and cross.takes_counts(between, feat)
    if can_count:
        return AsyncFiniteChecks(layer, context.num_src, context.num_dst), gpu_frontier
    # All steps must agree: one may be in training mode and another in evaluation mode.
    tables = [step.attention.in_place_key_value(layout, feat) for step in steps]
    context.in_place = None if None in tables else tables[0]
    return plain


def _batch(rule: HaltingRule, context: GraphContext, graph_ids: Tensor | None) -> BatchIndex | None:
    """Return a `BatchIndex` with the graph of each node, or None if the rule does not need it."""
    if isinstance(rule, EventDriven):  # a single graph needs no record for each graph
        if graph_ids is None and len(context.layout.dst_lengths) == 1:
            return None
    elif not rule.needs_members:
        return None
    if context.blocks:
        raise ValueError(f"{rule} needs whole graphs, not sampled blocks")
    return context.layout.cached(batch_index).renamed(graph_ids)


def _ponder(
    layer: Recurrence, context: GraphContext, found: LoopOutput, rows: Sequence[FrontierRows] | None
) -> Ponder:
    step, max_steps = steps_of(layer)[0], layer.max_steps
    records: dict[str, Any] = dict(found.waking or {})
    if found.waking is not None:
        max_steps = len(found.waking["round_sizes"])
    if context.get_attention and not context.blocks:
        records["attention"] = AttentionRecord(context.layout, context.weights)
        if (between := context.cross_layout) is not None:
            records["cross_attention"] = AttentionRecord(between, context.cross_weights)
        halting = [(r.nodes, r.probability) for r in rows or [] if r.probability is not None]
        if halting:
            missing = halting[0][1].new_full((context.num_dst,), torch.nan)
            records["halting"] = torch.stack([missing.index_copy(0, *each) for each in halting])
    return Ponder(
        steps=found.steps,
        remainder=found.remainder,
        cost=found.cost.mean() if found.cost.shape[0] else found.cost.sum(),
        max_steps=max_steps,
        work=context.work,
        layouts=tuple(context.blocks) or (context.layout,) * max_steps,
        cross_layout=context.cross_layout,
        node_flops=step.node_flops,
        key_value_flops=step.attention.key_value_flops,
        edge_flops=step.attention.edge_flops,
        encoded_flops=0 if context.encoded is None else context.encoded.flops,
        **records,
    )
