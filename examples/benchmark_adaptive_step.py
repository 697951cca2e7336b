"""What halting saves: graphut's adaptive recurrence against a dense, padded, masked model.

The dense model is what one writes in plain PyTorch today: sentences padded to a rectangle,
`scaled_dot_product_attention` with a mask, every node computed at every step, halted ones masked
out. Both have the same weights and halt by the same schedule; outputs and gradients are compared
before anything is timed. Runs of the two are interleaved, and figures are medians.

    python examples/benchmark_adaptive_step.py
"""

import argparse
import time
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from graphut.nn import (
    AdaptiveRecurrence,
    MultiHeadAttention,
    Ponder,
    PositionwiseTransition,
    ScheduledHalting,
    UniversalTransformerStep,
    coordinate_signal,
)
from graphut.topology import Causal, Complete

FRACTIONS = (1, 0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05)  # of the nodes that are active at each step
SHAPES = {"64x10-60": (64, 10, 60), "8x400": (8, 400, 400)}  # sentences, their lengths
SHARE = 0.01  # halting probability of a node before its last step


class PaddedModel(nn.Module):
    """All nodes at all steps, on `(batch, longest, d)`; halted nodes offer their last state."""

    def __init__(self, step: UniversalTransformerStep, causal: bool) -> None:
        super().__init__()
        self.step, self.causal = step, causal

    def forward(self, x: Tensor, lengths: Tensor, depth: Tensor) -> Tensor:
        batch, longest, d = x.shape
        step, attention = self.step, self.step.attention
        place = torch.arange(1, longest + 1)
        mask = (torch.arange(longest) < lengths[:, None])[:, None, None]
        if self.causal:
            mask = mask & torch.ones(longest, longest, dtype=torch.bool).tril()
        position = coordinate_signal(place, d)
        out, spent = torch.zeros_like(x), torch.zeros(batch, longest)
        for t in range(1, len(FRACTIONS) + 1):
            y = x + position + coordinate_signal(float(t), d)
            heads = (batch, longest, attention.num_heads, -1)
            query = attention.query(y).view(heads).transpose(1, 2)
            key, value = (
                part.reshape(heads).transpose(1, 2) for part in attention.key_value(y).chunk(2, -1)
            )
            seen = scaled_dot_product_attention(query, key, value, attn_mask=mask)
            a = step.attention_norm(y + attention.output(seen.transpose(1, 2).flatten(2)))
            new = step.transition_norm(a + step.transition.layers(a))
            active, last = depth >= t, depth == t
            weight = torch.where(last, 1 - spent, SHARE) * active
            out = out + weight[..., None] * new
            spent = spent + weight
            x = torch.where(active[..., None], new, x)
        return out


def depths(nodes: int, generator: torch.Generator) -> Tensor:
    """The step at which each node halts, so that the frontiers have the sizes of `FRACTIONS`."""
    depth = torch.zeros(nodes, dtype=torch.int64)
    order = torch.randperm(nodes, generator=generator)
    for fraction in FRACTIONS:
        depth[order[: round(fraction * nodes)]] += 1
    return depth


def compare(shape: str, causal: bool, d: int, repeats: int) -> str:
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    sentences, shortest, longest = SHAPES[shape]
    lengths = torch.randint(shortest, longest + 1, (sentences,), generator=generator)
    nodes = int(lengths.sum())
    depth = depths(nodes, generator)
    step = UniversalTransformerStep(
        MultiHeadAttention(d, 8, backend="torch"),
        PositionwiseTransition(d, 4 * d, activation=nn.GELU()),
    )
    sparse = AdaptiveRecurrence(
        step, ScheduledHalting(depth, share=SHARE), max_steps=len(FRACTIONS), halted="copied"
    )
    padded = PaddedModel(step, causal)

    present = torch.arange(int(lengths.max())) < lengths[:, None]
    depth_table = torch.zeros(present.shape, dtype=torch.int64).masked_scatter(present, depth)
    feat = torch.randn(nodes, d)
    table = feat.new_zeros(*present.shape, d)
    table[present] = feat
    upstream = torch.randn(nodes, d)
    positions = torch.cat([torch.arange(1, n + 1) for n in lengths.tolist()])
    layout = (Causal() if causal else Complete()).layout(lengths)

    def run_sparse() -> tuple[Tensor, Ponder]:
        out, ponder = sparse(layout, feat, positions=positions)
        step.zero_grad()
        out.backward(upstream)
        return out, ponder

    def run_padded() -> Tensor:
        out = padded(table, lengths, depth_table)[present]
        step.zero_grad()
        out.backward(upstream)
        return out

    (got, ponder), by_sparse = run_sparse(), gradients(step)
    wanted, by_padded = run_padded(), gradients(step)
    error = max(distance(got, wanted), distance(by_sparse, by_padded))
    if error > 1e-5:
        raise SystemExit(f"{shape}, d = {d}: the two models differ by {error:.1e}")
    times = interleaved([run_padded, run_sparse], repeats)
    name = f"{shape}, {'causal' if causal else 'complete'}"
    ratio, bound = times[0] / times[1], padded_flops(ponder, present) / ponder.flops.item()
    return (
        f"| {name} | {d} | {times[0] * 1e3:.0f} | {times[1] * 1e3:.0f} | {ratio:.2f} "
        f"| {bound:.2f} | {error:.0e} |"
    )


def padded_flops(ponder: Ponder, present: Tensor) -> int:
    """Floating-point operations of the padded model, whose attention is a square a sentence."""
    nodes, edges = present.numel(), present.numel() * present.shape[1]
    by_node = ponder.node_flops + ponder.memory_flops
    return len(FRACTIONS) * (nodes * by_node + edges * ponder.edge_flops)


def gradients(module: nn.Module) -> Tensor:
    return torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])


def distance(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


def interleaved(runs: list, repeats: int) -> list[float]:
    """Median seconds of each, timed in turns."""
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, into in zip(runs, seconds, strict=True):
            start = time.perf_counter()
            run()
            into.append(time.perf_counter() - start)
    return [median(times) for times in seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=9, help="timed runs of each (default: 9)")
    parser.add_argument(
        "--dims", type=int, nargs="+", default=[128, 512], help="features of a node"
    )
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    options = parser.parse_args()
    print("| shape | d | padded, ms | graphut, ms | speed-up | by FLOPs | difference |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for d in options.dims:
        for shape in options.shapes:
            for causal in (False, True):
                print(compare(shape, causal, d, options.repeats), flush=True)


if __name__ == "__main__":
    main()
