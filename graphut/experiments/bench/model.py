"""The benchmark of halting: the adaptive recurrence against a dense, padded, masked model."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from graphut.attention import EdgeLayout
from graphut.experiments.bench.driver import (
    CPU,
    TOLERANCE,
    Row,
    check_heads,
    check_tokens_only,
    largest_error,
    measure,
    say,
    sentence_lengths,
)
from graphut.experiments.bench.padding import PaddedBatch, PaddedModel, padded_mask
from graphut.nn import (
    AdaptiveRecurrence,
    MultiHeadAttention,
    Ponder,
    PositionwiseTransition,
    ScheduledHalting,
    UniversalTransformerStep,
)
from graphut.topology import parse

ACTIVE_FRACTIONS = (1.0, 0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05)
"""The share of the nodes that are active at each step."""
_SHARE = 0.01  # halting probability of a node before its last step


def scheduled_depths(nodes: int) -> Tensor:
    """Draw the step at which each node halts, by `ACTIVE_FRACTIONS`; always the same steps.

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
) -> list[Row]:
    """Compare results, time and memory of the two models, forward and forward with backward.

    Both have the same weights, in float32, and nodes halt by the same schedule, or never if not
    `halting`. If outputs or gradients differ, there is a note in place of figures. `relative_flops`
    are the operations of a model as a share of those of the dense model.

    Examples
    --------
    >>> rows = bench_model("causal", "2x3-5", dim=16, repeats=1)
    >>> rows[0]["workload"], [row["contender"] for row in rows]
    ('causal, 2x3-5, 16 features, schedule, forward', ['dense', 'adaptive', 'dense', 'adaptive'])
    """
    check_heads(dim, heads)
    topology, lengths = parse(spec), sentence_lengths(shape)
    check_tokens_only(topology)
    text = f"{spec}, {shape}, {dim} features, {'schedule' if halting else 'no halting'}"
    say(text)
    layout = topology.layout(lengths).to(device)
    nodes = layout.num_src
    depth = scheduled_depths(nodes) if halting else torch.full((nodes,), len(ACTIVE_FRACTIONS))
    torch.manual_seed(0)
    step = UniversalTransformerStep(
        MultiHeadAttention(dim, heads),
        # Smooth, because a ReLU near zero may differ between two correct models.
        PositionwiseTransition(dim, 4 * dim, activation=nn.GELU()),
    ).to(device)
    feat, upstream = torch.randn(2, nodes, dim).to(device)
    pair = _ModelPair(step, layout, lengths.to(device), depth.to(device), feat, upstream)
    error, share = pair.compare()
    flops = {"dense": 1.0, "adaptive": share}
    rows: list[Row] = []
    for backward, name in ((False, "forward"), (True, "forward+backward")):
        workload = f"{text}, {name}"
        if error <= TOLERANCE[torch.float32]:
            contenders = {
                "dense": lambda backward=backward: pair.run_dense(backward),
                "adaptive": lambda backward=backward: pair.run_adaptive(backward)[0],
            }
            found = measure(workload, contenders, repeats=repeats, device=device)
        else:
            note = f"wrong by {error:.0e}"
            found = [{"workload": workload, "contender": name, "note": note} for name in flops]
        rows += [{**row, "relative_flops": flops[row["contender"]]} for row in found]
    rows[1]["error"] = rows[3]["error"] = error if math.isfinite(error) else None
    return rows


class _ModelPair:
    """The two models, with inputs of the same numbers."""

    def __init__(
        self,
        step: UniversalTransformerStep,
        layout: EdgeLayout,
        lengths: Tensor,
        depth: Tensor,
        feat: Tensor,
        upstream: Tensor,
    ) -> None:
        self.step, self.layout, max_steps = step, layout, len(ACTIVE_FRACTIONS)
        schedule = ScheduledHalting(depth, share=_SHARE)
        self.adaptive = AdaptiveRecurrence(step, schedule, max_steps=max_steps, halted="copied")
        self.padded = PaddedBatch.of(lengths)
        # A padded model cannot know that all lengths are equal: it always has a mask.
        mask = padded_mask(self.padded, self.padded, layout.in_edges()[:2])
        self.dense = PaddedModel(step, mask, max_steps=max_steps, share=_SHARE)
        self.positions = self.padded.index[:, 1] + 1
        self.padded_feat = self.padded.pad(feat).requires_grad_()
        self.feat, self.upstream = feat.requires_grad_(), upstream
        self.padded_upstream = self.padded.pad(upstream)
        self.padded_depth = self.padded.pad(depth)

    def run_dense(self, backward: bool) -> list[Tensor]:
        """Return the output and the gradients of features and weights, padded."""
        with torch.set_grad_enabled(backward):
            out = self.dense(self.padded_feat, self.padded_depth)
        return self._results(out, self.padded_feat, self.padded_upstream)

    def run_adaptive(self, backward: bool) -> tuple[list[Tensor], Ponder]:
        """Return the output and the gradients of features and weights, and the ponder record."""
        with torch.set_grad_enabled(backward):
            out, ponder = self.adaptive(self.layout, self.feat, positions=self.positions)
        return self._results(out, self.feat, self.upstream), ponder

    def _results(self, out: Tensor, feat: Tensor, upstream: Tensor) -> list[Tensor]:
        if not out.requires_grad:
            return [out]
        inputs = (feat, *self.step.parameters())
        return [out.detach(), *torch.autograd.grad(out, inputs, upstream)]

    def compare(self) -> tuple[float, float]:
        """Return the largest error, and the adaptive model's share of the dense operations."""
        found, ponder = self.run_adaptive(True)
        out, to_feat, *others = self.run_dense(True)
        expected = [self.padded.unpad(out), self.padded.unpad(to_feat), *others]
        return largest_error(found, expected), int(ponder.flops) / self._dense_flops(ponder)

    def _dense_flops(self, ponder: Ponder) -> int:
        """Count the operations of the padded model, which scores all pairs of a sentence."""
        rows, longest = self.padded.present.numel(), self.padded.present.shape[1]
        by_node = ponder.node_flops + ponder.key_value_flops
        return len(ACTIVE_FRACTIONS) * rows * (by_node + longest * ponder.edge_flops)
