"""The benchmark of halting: the adaptive recurrence against a dense, padded, masked model."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from graphut.experiments.bench.implementations import TOLERANCE, largest_error
from graphut.experiments.bench.padding import PaddedBatch, PaddedModel, padded_mask
from graphut.experiments.bench.peak_memory import peak_bytes
from graphut.experiments.bench.report import Report
from graphut.experiments.bench.timing import interleaved
from graphut.experiments.bench.workloads import ModelProblem
from graphut.experiments.machine import dated_machine
from graphut.nn import (
    AdaptiveRecurrence,
    MultiHeadAttention,
    Ponder,
    PositionwiseTransition,
    ScheduledHalting,
    UniversalTransformerStep,
)

_log = logging.getLogger(__name__)
ACTIVE_FRACTIONS = (1.0, 0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05)
"""The share of the nodes that are active at each step."""
_FIGURES = (
    "dense_seconds", "adaptive_seconds", "speed_up", "share_of_bound", "dense_peak_bytes",
    "adaptive_peak_bytes", "memory_ratio",
)  # fmt: skip
_SHARE = 0.01  # halting probability of a node before its last step


def scheduled_depths(nodes: int) -> Tensor:
    """Draw the step at which each node halts, by `ACTIVE_FRACTIONS`; always the same.

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


def bench_model(problem: ModelProblem, *, repeats: int = 9, nobody_halts: bool = False) -> Report:
    """Compare results, time and memory of the two models, forward and forward with backward.

    Both have the same weights and halt by the same schedule, in float32. Outputs and gradients
    are compared first; if they differ, there are no figures. Then they are timed in `repeats`
    rounds; with `nobody_halts` also where every node is at the cap. The report is what a JSON file
    of it holds, with a row for each pass: seconds and bytes.

    Examples
    --------
    >>> from graphut.experiments.bench.workloads import Sizes
    >>> from graphut.topology import Causal
    >>> report = bench_model(ModelProblem(topology=Causal(), sizes=Sizes(2, 3, 5), dim=16),
    ...                      repeats=1)
    >>> [row["pass"] for row in report["rows"]], report["rows"][0]["reason"]
    (['forward', 'forward+backward'], None)
    """
    variants = [problem, replace(problem, halting=False)] if nobody_halts else [problem]
    rows = [row for variant in variants for row in _ModelPair(variant).measure(repeats)]
    return {"bench": "model", "machine": dated_machine(problem.device), "rows": rows}


class _ModelPair:
    """The two models, with inputs of the same numbers."""

    def __init__(self, problem: ModelProblem) -> None:
        _log.info("%s, %s, %d features", problem.sizes, problem.topology, problem.dim)
        torch.manual_seed(0)
        self.problem, device = problem, problem.device
        lengths = problem.sizes.lengths()
        self.layout = problem.topology.layout(lengths).to(device)
        nodes, cap = self.layout.num_src, len(ACTIVE_FRACTIONS)
        depth = scheduled_depths(nodes) if problem.halting else torch.full((nodes,), cap)
        depth = depth.to(device)
        self.step = UniversalTransformerStep(
            MultiHeadAttention(problem.dim, problem.heads, backend=problem.backend),
            # Smooth: a ReLU next to zero may flip between two right models.
            PositionwiseTransition(problem.dim, 4 * problem.dim, activation=nn.GELU()),
        ).to(device)
        halting = ScheduledHalting(depth, share=_SHARE)
        self.adaptive = AdaptiveRecurrence(self.step, halting, max_steps=cap, halted="copied")
        self.padded = PaddedBatch.of(lengths.to(device))
        # A model that pads does not know when all lengths are the same: it always has a mask.
        mask = padded_mask(self.padded, self.padded, self.layout.in_edges()[:2])
        self.dense = PaddedModel(self.step, mask, max_steps=cap, share=_SHARE)
        self.positions = self.padded.index[:, 1] + 1
        feat, upstream = torch.randn(2, nodes, problem.dim).to(device)
        self.feat = feat.requires_grad_()
        self.upstream = upstream
        self.padded_feat = self.padded.pad(feat.detach()).requires_grad_()
        self.padded_upstream = self.padded.pad(upstream)
        self.padded_depth = self.padded.pad(depth)

    def measure(self, repeats: int) -> list[dict[str, Any]]:
        """Return a row for each pass."""
        error, bound = self._compare()
        right = error <= TOLERANCE[torch.float32]
        return [
            {
                **self.problem.to_dict(),
                "pass": "forward+backward" if backward else "forward",
                "error": error if math.isfinite(error) else None,
                "reason": None if right else f"wrong by {error:.0e}",
                "bound_by_flops": bound,
                **(self._figures(bound, backward, repeats) if right else dict.fromkeys(_FIGURES)),
            }
            for backward in (False, True)
        ]

    def _figures(self, bound: float, backward: bool, repeats: int) -> dict[str, Any]:
        device = self.problem.device
        runs = {
            "dense": lambda: self.run_dense(backward),
            "adaptive": lambda: self.run_adaptive(backward)[0],
        }
        times = interleaved(runs, repeats, device)
        dense, adaptive = (peak_bytes(run, device) for run in runs.values())
        speed_up = times["dense"]["median"] / times["adaptive"]["median"]
        ratio = dense / adaptive if dense and adaptive else None
        figures = (times["dense"], times["adaptive"], speed_up, speed_up / bound)
        return dict(zip(_FIGURES, (*figures, dense, adaptive, ratio), strict=True))

    def run_dense(self, backward: bool) -> list[Tensor]:
        """Return the output, and the gradients of features and weights, padded."""
        with torch.set_grad_enabled(backward):
            out = self.dense(self.padded_feat, self.padded_depth)
        return self._results(out, self.padded_feat, self.padded_upstream)

    def run_adaptive(self, backward: bool) -> tuple[list[Tensor], Ponder]:
        """Return the same, packed, and the record of the run."""
        with torch.set_grad_enabled(backward):
            out, ponder = self.adaptive(self.layout, self.feat, positions=self.positions)
        return self._results(out, self.feat, self.upstream), ponder

    def _results(self, out: Tensor, feat: Tensor, upstream: Tensor) -> list[Tensor]:
        if not out.requires_grad:
            return [out]
        inputs = (feat, *self.step.parameters())
        return [out.detach(), *torch.autograd.grad(out, inputs, upstream)]

    def _compare(self) -> tuple[float, float]:
        """Return the error, and how many times fewer operations the adaptive model does."""
        found, ponder = self.run_adaptive(True)
        out, to_feat, *others = self.run_dense(True)
        expected = [self.padded.unpad(out), self.padded.unpad(to_feat), *others]
        return largest_error(found, expected), self._dense_flops(ponder) / int(ponder.flops)

    def _dense_flops(self, ponder: Ponder) -> int:
        """Count the operations of the padded model, whose attention is a square a sentence."""
        rows, longest = self.padded.present.numel(), self.padded.present.shape[1]
        by_node = ponder.node_flops + ponder.key_value_flops
        return len(ACTIVE_FRACTIONS) * rows * (by_node + longest * ponder.edge_flops)
