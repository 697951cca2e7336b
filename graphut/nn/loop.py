"""One call of an adaptive recurrence: check the arguments, repeat the step, build the record."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import torch
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.key_value_memory import KeyValueMemory
from graphut.attention.tensor_checks import check_tensor
from graphut.nn.attention import AttentionRecord
from graphut.nn.call_state import FrontierRows, GraphContext, LoopOutput, LoopState
from graphut.nn.finite_checks import FiniteChecks
from graphut.nn.gpu import run_program
from graphut.nn.gpu.async_checks import AsyncFiniteChecks
from graphut.nn.halting_frontier import HaltingFrontier
from graphut.nn.input_checks import check_same_nodes
from graphut.nn.masked_frontier import MaskedFrontier
from graphut.nn.plan import Options, Plan
from graphut.nn.planning import Recurrence, plan_for
from graphut.nn.ponder import Ponder
from graphut.nn.relative import edge_distances
from graphut.nn.rules import BatchIndex, EventDriven, HaltingRule
from graphut.nn.rules.base import batch_index
from graphut.nn.step import read_cross
from graphut.nn.transition import SeparableConvTransition
from graphut.nn.waking_frontier import Start, WakingFrontier

Graph: TypeAlias = DGLGraph | EdgeLayout


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
    edge_bias: Any = None,
    edge_feat: Any = None,
    edge_weight: Any = None,
) -> tuple[Any, ...]:
    """Return the results of `layer.forward`, or with `start` those of `layer.resume`."""
    blocks: Sequence[EdgeLayout] = ()
    check_tensor(feat, "features of source nodes")
    by_edge = not (edge_bias is None and edge_feat is None and edge_weight is None)
    options: dict[str, Any] = {}
    if by_edge:
        options = {"edge_bias": edge_bias, "edge_feat": edge_feat, "edge_weight": edge_weight}
    if isinstance(graph, Sequence):
        blocks = [block.to(feat.device) for block in _block_layouts(layer, graph, options)]
        layout = blocks[0]
    else:
        if isinstance(graph, EdgeLayout):
            layout = graph
            layout.check_unwritten()
        else:
            check_same_nodes(graph)
            layout = as_layout(graph)
        if layout.device != feat.device:
            layout = layout.to(feat.device)
    step, recorded = layer.steps[0], get_attention or get_steps
    between = encoded = None
    if cross is not None or step.cross_attention is not None:
        between, encoded = read_cross(step.cross_attention, cross)
    kind = Options(bool(blocks), by_edge, get_attention, recorded, graph_ids is not None)
    plan = plan_for(layer, layout, between, feat, kind)
    context = GraphContext(layout, between, encoded, blocks, options, get_attention)
    if plan.in_place:
        context.in_place = KeyValueMemory(plan.in_place)
    context.cross_in_place = plan.cross_in_place
    halo, exchange = layout.halo, None
    if positions is not None:
        _check_positions(positions, layout.num_src if halo is None else layout.num_dst)
        if positions.device != feat.device:
            positions = positions.to(feat.device, non_blocking=True)
    if halo is not None:
        _check_part(layer.steps, start, graph_ids)
        exchange = halo.begin()
    if positions is not None and getattr(step.attention, "relative", None):
        of_step = [edge_distances(each, positions[: each.num_src]) for each in blocks or [layout]]
        context.of_edges = {**options, "edge_distance": of_step if blocks else of_step[0]}
    checks = FiniteChecks(plan.is_traced)
    if not plan.waits:
        checks = AsyncFiniteChecks(layer)
    if plan.waits or plan.program is None:
        checks.check_features(feat)
    rows: list[FrontierRows] | None = [] if recorded else None
    state = LoopState(
        plan,
        context,
        feat,
        positions,
        blocks[-1].num_dst if blocks else layout.num_dst,
        batch=_batch(plan.rule, context, graph_ids),
        checks=checks,
        rows=rows,
        exchange=exchange,
    )
    output = run_loop(state, start)
    checks.close()
    if exchange is not None:
        output, rows = exchange.close((output, rows))
    ponder = _ponder(plan, context, output, rows)
    records = ([context.weights] if get_attention else []) + ([rows] if get_steps else [])
    return output.out, ponder, *records


def run_loop(state: LoopState, start: Start | None = None) -> LoopOutput:
    """Repeat the step until no node is active, and return the results of all nodes."""
    plan = state.plan
    if plan.program is not None:
        output = run_program(state, start)
    else:
        frontier: Any = FRONTIERS[plan.frontier]
        frontier = frontier(state) if start is None else WakingFrontier(state, start)
        for t in range(1, plan.max_steps + 1):
            if not state.any_active(frontier.num_active):
                break
            before = frontier.refresh_keys_and_values(t)
            after = state.update(before, t)
            frontier.end_step(before, after, t)
        output = frontier.result()
    out = state.readout(output.out)
    return output if out is output.out else output._replace(out=out)


FRONTIERS: dict[str, Callable[[LoopState], Any]] = {
    "halting": HaltingFrontier,  # nodes halt for good
    "masked": MaskedFrontier,  # every node computes in every step
    "waking": WakingFrontier,  # a node computes when something that it reads has changed
}


def _check_positions(positions: Tensor, nodes: int) -> None:
    check_tensor(positions, "positions")
    if positions.shape[:1] != (nodes,) or positions.dim() > 2:
        raise ValueError(
            f"positions must be ({nodes},), one for each node, or ({nodes}, coordinates); got "
            f"shape {tuple(positions.shape)}"
        )


def _check_part(steps: Sequence[Any], start: Start | None, graph_ids: Tensor | None) -> None:
    """Raise a `ValueError` if a graph divided among processes does not support these settings."""
    unsupported = ""
    if start is not None:
        unsupported = "resume"
    elif graph_ids is not None:
        unsupported = "graph_ids: it is a part of a single graph"
    elif any(isinstance(step.transition, SeparableConvTransition) for step in steps):
        unsupported = "a separable convolution, which reads other nodes than in-neighbours"
    elif any(step.cross_attention is not None for step in steps):
        unsupported = "a decoder step"
    elif any(getattr(step.attention, "relative", None) for step in steps):
        unsupported = "relative positions, because it has only the positions of its own nodes"
    if unsupported:
        raise ValueError(f"a part of a graph does not support {unsupported}")


def _block_layouts(
    layer: Recurrence, blocks: Sequence[Graph], of_edges: Mapping[str, Any]
) -> list[EdgeLayout]:
    """Check sampled blocks, one for each step, and return their edges as `EdgeLayout`s."""
    if isinstance(layer.active_rule, EventDriven):
        raise ValueError(f"{layer.active_rule} needs one graph, not a list of blocks")
    layouts, step = [as_layout(block) for block in blocks], layer.steps[0]
    if len(blocks) != layer.max_steps:
        raise ValueError(
            f"got {len(blocks)} blocks for max_steps={layer.max_steps}; sample one for each "
            f"step, for example with NeighborSampler([10] * {layer.max_steps})"
        )
    for name, by_block in of_edges.items():
        if by_block is not None and len(by_block) != len(blocks):
            raise ValueError(f"{name} has {len(by_block)} entries for {len(blocks)} blocks")
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
    plan: Plan, context: GraphContext, output: LoopOutput, rows: Sequence[FrontierRows] | None
) -> Ponder:
    max_steps = plan.max_steps
    records: dict[str, Any] = dict(output.waking or {})
    if output.waking is not None:
        max_steps = len(output.waking["round_sizes"])
    if context.get_attention and not context.blocks:
        records["attention"] = AttentionRecord(context.layout, context.weights)
        if (between := context.cross_layout) is not None:
            records["cross_attention"] = AttentionRecord(between, context.cross_weights)
        halting = [(r.nodes, r.probability) for r in rows or [] if r.probability is not None]
        if halting:
            missing = halting[0][1].new_full((context.num_dst,), torch.nan)
            records["halting"] = torch.stack([missing.index_copy(0, *each) for each in halting])
            records["stopped"] = torch.zeros_like(missing, dtype=torch.bool)
            if rows and rows[-1].halts is not None and len(rows) == max_steps:
                records["stopped"][rows[-1].nodes] = ~rows[-1].halts
    return Ponder(
        steps=output.steps,
        remainder=output.remainder,
        cost=output.cost.mean() if output.cost.shape[0] else output.cost.sum(),
        max_steps=max_steps,
        work=context.work,
        layouts=tuple(context.blocks) or (context.layout,) * max_steps,
        cross_layout=context.cross_layout,
        node_flops=plan.node_flops,
        key_value_flops=plan.key_value_flops,
        edge_flops=plan.edge_flops,
        encoded_flops=0 if context.encoded is None else context.encoded.flops,
        **records,
    )
