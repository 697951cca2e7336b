"""Sampled blocks, one a step: mini-batches of a big graph.

A block's destinations are the first of its sources, and the sources of the next block. So nodes
keep their numbers, and from step to step there are fewer of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.nn.checks import check_same_nodes
from graphut.nn.step import UniversalTransformerStep


def block_layouts(
    blocks: Sequence[DGLGraph | EdgeLayout],
    step: UniversalTransformerStep,
    max_steps: int,
    of_edges: dict[str, Sequence[Tensor] | None],
    device: torch.device,
) -> list[EdgeLayout]:
    """Return the layouts of blocks that serve the repetitions of `step`.

    `of_edges` are arguments with an entry for each block, by name.

    Raises
    ------
    ValueError
        If there is not one block for each repetition, if their nodes do not fit, or if the step
        needs more than a block has.
    """
    if len(blocks) != max_steps:
        raise ValueError(
            f"got {len(blocks)} blocks for max_steps={max_steps}; sample one a step, as "
            f"dgl.dataloading.NeighborSampler([10] * {max_steps}) does"
        )
    for name, given in of_edges.items():
        if given is not None and len(given) != len(blocks):
            raise ValueError(f"{name} has {len(given)} entries for {len(blocks)} blocks")
    if step.cross_attention is not None:
        raise ValueError("a decoder step takes one graph for all steps, not a list of blocks")
    if step.transition.reads_neighbours:
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
