"""The benchmark of halting: the adaptive recurrence against a dense, padded, masked model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from graphut.experiments.bench.attention_workload import gradient_run
from graphut.experiments.bench.checks import check_tokens_only
from graphut.experiments.bench.driver import (
    CPU,
    TOLERANCE,
    Contender,
    Row,
    largest_error,
    measure,
    say,
    sentence_lengths,
)
from graphut.experiments.bench.padding import PaddedModel, pad, padded_mask, present_positions
from graphut.nn import (
    AdaptiveRecurrence,
    MultiHeadAttention,
    PositionwiseTransition,
    ScheduledHalting,
    UniversalTransformerStep,
)
from graphut.topology import parse

ACTIVE_FRACTIONS = (1.0, 0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05)
"""The share of the nodes that are active at each step."""
IN_BFLOAT16 = "adaptive, bfloat16"
_LIMIT = {"adaptive": TOLERANCE[torch.float32], IN_BFLOAT16: TOLERANCE[torch.bfloat16]}
_SHARE = 0.01  # halting probability of a node before its last step


def scheduled_depths(nodes: int) -> Tensor:
    """Draw the last step of each node, `(nodes,)`; `ACTIVE_FRACTIONS` are active at each step.

    Examples
    --------
    >>> [int((scheduled_depths(100) >= step).sum()) for step in range(1, 9)]
    [100, 90, 70, 50, 30, 20, 10, 5]
    """
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(0))
    depth = torch.zeros(nodes, dtype=torch.int64)
    for fraction in ACTIVE_FRACTIONS:
        depth[order[: round(fraction * nodes)]] += 1
    return depth


def bench_model(
    spec: str,
    shape: str,
    *,
    dim: int = 128,
    heads: int = 8,
    device: torch.device = CPU,
    repeats: int = 9,
    halting: bool = True,
    bfloat16: bool = False,
) -> list[Row]:
    """Compare results, time and memory of an adaptive and of a dense, padded model.

    The adaptive model does not compute halted nodes. `spec` is a topology, and `shape` a batch such
    as "64x10-60": 64 sentences of 10 to 60 tokens. The forward pass is timed alone, and with the
    backward pass. Both models have the same weights, in float32. With `bfloat16`, the adaptive
    model also runs under autocast to bfloat16. The nodes of both halt at the steps of
    `scheduled_depths`, or take all steps if not `halting`. If outputs or gradients differ, the rows
    have a note instead of times. The column `relative_flops` contains the number of operations,
    divided by the operations of the dense model.
    """
    topology, lengths = parse(spec), sentence_lengths(shape)
    check_tokens_only(topology)
    text = f"{spec}, {shape}, {dim} features, {'schedule' if halting else 'no halting'}"
    layout = topology.layout(lengths).to(device)
    nodes = layout.num_src
    depth = scheduled_depths(nodes) if halting else torch.full((nodes,), len(ACTIVE_FRACTIONS))
    torch.manual_seed(0)
    step = UniversalTransformerStep(
        MultiHeadAttention(dim, heads),
        # Smooth, because a ReLU near zero may differ between two correct models.
        PositionwiseTransition(dim, 4 * dim, activation=nn.GELU()),
    ).to(device)
    say(text)
    feat, upstream = torch.randn(2, nodes, dim).to(device)
    adaptive = AdaptiveRecurrence(
        step,
        ScheduledHalting(depth.to(device), share=_SHARE),
        max_steps=len(ACTIVE_FRACTIONS),
        halted="copied",
    )
    present = present_positions(lengths.to(device))
    # A padded model cannot know that all lengths are equal: it always has a mask.
    mask = padded_mask(present, present, layout.in_edges()[:2])
    dense = PaddedModel(step, mask, max_steps=len(ACTIVE_FRACTIONS), share=_SHARE)
    padded_depth, positions = pad(depth.to(device), present), present.nonzero()[:, 1] + 1
    calls: dict[str, tuple[Callable[[Tensor], Tensor], Tensor, Tensor]] = {
        "dense": (lambda x: dense(x, padded_depth), pad(feat, present), pad(upstream, present)),
        "adaptive": (lambda x: adaptive(layout, x, positions=positions)[0], feat, upstream),
    }
    if bfloat16:
        narrow = torch.autocast(device.type, torch.bfloat16)(calls["adaptive"][0])
        calls[IN_BFLOAT16] = (narrow, feat, upstream)
    weights = [*step.parameters()]
    both = {name: gradient_run(call, [x], grad, weights) for name, (call, x, grad) in calls.items()}
    forward = {name: torch.no_grad()(partial(call, x)) for name, (call, x, _) in calls.items()}
    out, to_feat, *others = both["dense"]()
    expected = [out[present], to_feat[present], *others]
    errors = {name: largest_error(run(), expected) for name, run in both.items() if name != "dense"}
    ponder = adaptive(layout, feat, positions=positions)[1]
    # The padded model computes all rows, and scores all pairs of a padded sentence.
    by_node = ponder.node_flops + ponder.key_value_flops + present.shape[1] * ponder.edge_flops
    share = int(ponder.flops) / (len(ACTIVE_FRACTIONS) * present.numel() * by_node)
    flops = {"dense": 1.0, **dict.fromkeys(errors, share)}
    rows: list[Row] = []
    modes: dict[str, Mapping[str, Contender]] = {"forward": forward, "forward+backward": both}
    for name, runs in modes.items():
        workload = f"{text}, {name}"
        wrong = [f"wrong by {error:.0e}" for name, error in errors.items() if error > _LIMIT[name]]
        if wrong:
            found = [{"workload": workload, "contender": name, "note": wrong[0]} for name in flops]
        else:
            found = measure(workload, runs, repeats=repeats, device=device)
        rows += [{**row, "relative_flops": flops[row["contender"]]} for row in found]
    for row in rows:
        error = errors.get(row["contender"], math.inf)
        row["error"] = error if math.isfinite(error) else None
    return rows
