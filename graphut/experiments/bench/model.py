"""The benchmark of halting: the adaptive recurrence against a dense, padded, masked model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from graphut.experiments.bench.attention_workload import gradient_run
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
COMPILED = "compiled dense"
_NARROW = ", bfloat16"  # ends the names of contenders under autocast
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
    compiler: str | None = None,
) -> list[Row]:
    """Compare results, time and memory of an adaptive and of a dense, padded model.

    The adaptive model does not compute halted nodes. `spec` is a topology, and `shape` a batch such
    as "64x10-60": 64 sentences of 10 to 60 tokens. The forward pass is timed alone, and with the
    backward pass. Both models have the same weights, in float32. With `compiler`, a backend of
    `torch.compile` such as "inductor", the dense model is also compiled; on a GPU, its kernels are
    launched as CUDA graphs. With `bfloat16`, the adaptive and the compiled model also run under
    autocast to bfloat16. The nodes of all models halt at the steps of `scheduled_depths`, or take
    all steps if not `halting`. If outputs or gradients differ, the rows have a note instead of
    times. The column `relative_flops` contains the number of operations,
    divided by the operations of the dense model.
    """
    lengths = sentence_lengths(shape)
    text = f"{spec}, {shape}, {dim} features, {'schedule' if halting else 'no halting'}"
    layout = parse(spec).layout(lengths).to(device)
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
    runs: dict[str, Callable[[Tensor], Tensor]] = {"dense": lambda x: dense(x, padded_depth)}
    if compiler is not None:
        runs[COMPILED] = _compiled(dense, padded_depth, compiler)
    runs["adaptive"] = lambda x: adaptive(layout, x, positions=positions)[0]
    if bfloat16:
        autocast = torch.autocast(device.type, torch.bfloat16)
        runs |= {f"{name}{_NARROW}": autocast(run) for name, run in runs.items() if name != "dense"}
    packed, padded = (feat, upstream), (pad(feat, present), pad(upstream, present))
    weights = [*step.parameters()]
    forward, backward, results = {}, {}, {}
    for name, call in runs.items():
        is_packed = name.startswith("adaptive")
        x, gradient = packed if is_packed else padded
        backward[name] = gradient_run(call, [x], gradient, weights)
        forward[name] = torch.no_grad()(partial(call, x))
        out, to_feat, *others = backward[name]()
        results[name] = [out, to_feat] if is_packed else [out[present], to_feat[present]]
        results[name] += others
        if name.startswith(COMPILED):
            for run in (forward[name], backward[name]) * 3:  # compile, and record the CUDA graphs
                run()
    expected = results.pop("dense")
    errors = {name: largest_error(result, expected) for name, result in results.items()}
    ponder = adaptive(layout, feat, positions=positions)[1]
    # The padded model computes all rows, and scores all pairs of a padded sentence.
    by_node = ponder.node_flops + ponder.key_value_flops + present.shape[1] * ponder.edge_flops
    share = int(ponder.flops) / (len(ACTIVE_FRACTIONS) * present.numel() * by_node)
    flops = {name: share if name.startswith("adaptive") else 1.0 for name in runs}
    rows: list[Row] = []
    modes: dict[str, Mapping[str, Contender]] = {"forward": forward, "forward+backward": backward}
    problems = [
        f"{name} is wrong by {error:.0e}" for name, error in errors.items() if error > _limit(name)
    ]
    for mode, timed in modes.items():
        workload = f"{text}, {mode}"
        if problems:
            common = {"workload": workload, "note": problems[0]}
            measured = [{**common, "contender": name} for name in runs]
        else:
            measured = measure(workload, timed, repeats=repeats, device=device)
        rows += [{**row, "relative_flops": flops[row["contender"]]} for row in measured]
    for row in rows:
        error = errors.get(row["contender"], math.inf)
        row["error"] = error if math.isfinite(error) else None
    return rows


def _compiled(model: PaddedModel, depth: Tensor, compiler: str) -> Callable[[Tensor], Tensor]:
    """Compile a model; on a GPU with "inductor", so that a call replays CUDA graphs."""
    replays = depth.is_cuda and compiler == "inductor"
    run = torch.compile(model, backend=compiler, mode="reduce-overhead" if replays else None)

    def call(x: Tensor) -> Tensor:
        if replays:  # results of earlier calls may be overwritten
            torch.compiler.cudagraph_mark_step_begin()
        out: Tensor = run(x, depth)
        return out

    return call


def _limit(contender: str) -> float:
    """Return the largest relative error of a correct contender."""
    return TOLERANCE[torch.bfloat16 if contender.endswith(_NARROW) else torch.float32]
