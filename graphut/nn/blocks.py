"""The recurrence over sampled blocks, one a step: for mini-batches of a big graph.

A block's destinations are the first of its sources, and the sources of the next block. So nodes
keep their numbers, and from step to step there are fewer of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.nn.checks import check_same_nodes
from graphut.nn.frontier import plus
from graphut.nn.surroundings import GraphSurroundings
from graphut.nn.tally import Tally
from graphut.nn.watch import Watch

if TYPE_CHECKING:
    from graphut.nn.recurrence import AdaptiveRecurrence


def block_layouts(
    layer: AdaptiveRecurrence,
    blocks: Sequence[DGLGraph | EdgeLayout],
    edge_bias: Sequence[Tensor] | None,
    device: torch.device,
) -> list[EdgeLayout]:
    """The layouts of blocks that serve the steps of `layer`, or an error that says why not."""
    if len(blocks) != layer.max_steps:
        raise ValueError(
            f"got {len(blocks)} blocks for max_steps={layer.max_steps}; sample one a step, as "
            f"dgl.dataloading.NeighborSampler([10] * {layer.max_steps}) does"
        )
    if edge_bias is not None and len(edge_bias) != len(blocks):
        raise ValueError(f"edge_bias has {len(edge_bias)} entries for {len(blocks)} blocks")
    if layer.step_of(1).cross_attention is not None:
        raise ValueError("a decoder step takes one graph for all steps, not a list of blocks")
    if layer.step_of(1).transition.reads_neighbours:
        raise ValueError("a convolution reads along sentences, and blocks have none")
    for block in blocks:
        check_same_nodes(block)
    layouts = [as_layout(block).to(device) for block in blocks]
    for t, (block, following) in enumerate(pairwise(layouts)):
        if block.num_dst != following.num_src:
            raise ValueError(
                f"block {t} has {block.num_dst} destinations, but block {t + 1} has "
                f"{following.num_src} sources; they must be the same nodes"
            )
    return layouts


def run_blocks(
    layer: AdaptiveRecurrence,
    around: GraphSurroundings,
    layouts: Sequence[EdgeLayout],
    edge_bias: Sequence[Tensor] | None,
    feat: Tensor,
    place: Tensor | None,
    watch: Watch,
) -> tuple[Tensor, Tensor, Tensor]:
    """Output, steps and remainder of the last block's destinations.

    Step `t` computes the active ones of the destinations of `layouts[t - 1]`; its other sources
    show the states that they have.
    """
    everyone = layer.halting is None or layer.halted == "running"
    state, tally = feat, Tally.start(layer.rule(), feat)
    active = torch.ones(len(feat), dtype=torch.bool, device=feat.device)
    steps = torch.zeros_like(active, dtype=torch.int64)
    remainder = torch.zeros_like(tally.spent)
    for step, around.layout in enumerate(layouts, 1):
        around.edge_bias = None if edge_bias is None else edge_bias[step - 1]
        before = plus(state, None if place is None else place[: len(state)])
        before = before + layer.signal(step, feat)
        _show(layer, around, before, active, steps, step)

        nodes = around.layout.num_dst
        state, active, steps, remainder = (x[:nodes] for x in (state, active, steps, remainder))
        tally.spent, tally.out = tally.spent[:nodes], tally.out[:nodes]
        around.frontier = torch.arange(nodes, device=feat.device) if everyone else _where(active)
        rows = before.index_select(0, around.frontier)
        new = layer.step_of(step).update(rows, around)
        state = state.index_copy(0, around.frontier, new)
        steps = steps + active
        if layer.halting is None:
            continue
        probability = layer.probability(rows, new, around.frontier, step)
        watch.probability(probability, around.frontier, step)
        spread = torch.zeros_like(tally.spent).index_copy(0, around.frontier, probability)
        halts, left = tally.add(state, spread, step, active)
        remainder = torch.where(halts, left, remainder)
        active = active & ~halts
    out = state if layer.halting is None else tally.out
    return layer.readout(out), steps, remainder


def _show(
    layer: AdaptiveRecurrence,
    around: GraphSurroundings,
    before: Tensor,
    active: Tensor,
    steps: Tensor,
    step: int,
) -> None:
    """Bring what the sources of this step's block show up to date."""
    renewed = None
    if layer.halting is not None and layer.halted == "stale":
        renewed = _where(active)
    elif layer.halting is not None and layer.halted == "frozen":
        renewed = _where(steps == step - 1)  # those that halted in the last step too
    rows = before if renewed is None else before.index_select(0, renewed)
    around.memory = None if around.memory is None else around.memory[: len(before)]
    around.write(renewed, layer.step_of(step).project(rows))


def _where(mask: Tensor) -> Tensor:
    return mask.nonzero()[:, 0]
