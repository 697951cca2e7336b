"""Compare the adaptive recurrence, and waking on grids, with dense models on a CUDA device.

    python examples/benchmarks/gpu.py --results bench.csv

The dense model is compiled, and launches its kernels as CUDA graphs. Each call has new sentences,
and includes the layout of the adaptive model, or the mask of the dense one. Halting is learned,
under autocast to bfloat16: nodes take about half of eight steps, or all.
"""

from copy import copy
from functools import partial
from itertools import chain, product
from typing import Any

import common
import torch
from model import Dense, compare, make_recurrence

from graphut import nn as gnn
from graphut.topology import Complete, Patch

SHAPES = (("64x10-60", 128), ("64x10-60", 512), ("8x400", 512), ("64x512", 512))


def bench_recurrence(shape: str, dim: int, bias: float, repeats: int, device: str = "cuda") -> Any:
    unit = gnn.HaltingUnit(dim, bias_init=bias, gain=0.1)
    ours = make_recurrence(dim, 8, unit, max_steps=8).to(device)
    longest = int(shape.replace("x", "-").split("-")[-1])
    how: Any = {"mode": "reduce-overhead"} if device == "cuda" else {"backend": "eager"}
    compiled, batch = torch.compile(Dense(ours, longest), **how), dict[str, Any]()

    def draw() -> None:
        lengths = common.draw_lengths(shape, int(torch.randint(1 << 30, ())))
        mask = torch.arange(longest) < lengths[:, None]
        feat, positions = torch.randn(int(mask.sum()), dim), mask.nonzero()[:, 1] + 1
        tensors = {"feat": feat, "positions": positions, "padded": common.pad(feat, mask)}
        batch.update({k: x.to(device) for k, x in tensors.items()}, lengths=lengths)

    def adaptive() -> Any:
        layout = Complete().layout(batch["lengths"])
        return ours(layout, batch["feat"], positions=batch["positions"])

    def dense() -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        present = (torch.arange(longest) < batch["lengths"][:, None]).to(device)
        return compiled(batch["padded"], present, present[:, None, None])

    autocast = torch.autocast(device, torch.bfloat16)
    models = {"compiled dense": autocast(dense), "adaptive": autocast(adaptive)}
    for run in (*models.values(),) * 4:  # compile, and record CUDA graphs
        draw()
        out, ponder = run()
        out.float().sum().backward()
    title = f"complete, {shape}, {dim} features, {ponder.steps.double().mean():.1f} of 8 steps"
    return compare(title, models, [*ours.parameters()], repeats, limit=2e-2, before=draw)


@torch.no_grad()
def bench_waking(side: int, dim: int, repeats: int, device: str = "cuda") -> Any:
    # The weights are random. The states are quantized, so that the results are equal.
    options: Any = {"rule": gnn.EventDriven(), "quantize": gnn.Quantized(2), "max_steps": 100}
    options |= {"position_signal": None, "step_signal": None, "inject_input": True}
    wakes = make_recurrence(dim, 8, None, **options).to(device).eval()
    layout = Patch(side, 1).layout([side * side]).to(device)
    feat = torch.randn(side * side, dim, device=device)
    out, ponder = wakes(layout, feat)
    every = copy(wakes)
    every.rule, every.max_steps = gnn.FixedDepth(), len(ponder.frontier_sizes)
    error = common.relative_error([out], [every(layout, feat)[0]])
    title = f"waking, grid of {side**2:,} nodes, {dim} features, {every.max_steps} rounds"
    title += f", {ponder.steps.double().mean():.1f} updates of a node"
    models = {"every node in every round": every, "nodes that wake": wakes}
    runs = {k: torch.no_grad()(partial(model, layout, feat)) for k, model in models.items()}
    return common.time_in_turns(title, runs, repeats, error=error)


if __name__ == "__main__":
    options = common.parse_options(__doc__, repeats=15)
    if not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device")
    sizes = product(SHAPES, (-1.0, -9.0))
    halting = (bench_recurrence(*shape, bias, options.repeats) for shape, bias in sizes)
    waking = (bench_waking(side, 64, options.repeats) for side in (316, 1000))
    common.report("gpu", chain(halting, waking), options.results, "cuda")
