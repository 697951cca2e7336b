"""What halting saves: the adaptive recurrence against a dense, padded, masked model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from graphut.experiments.bench.dense import PaddedModel
from graphut.experiments.bench.gate import TOLERANCE, largest_error
from graphut.experiments.bench.machine import dated_machine
from graphut.experiments.bench.memory import peak_bytes
from graphut.experiments.bench.model_report import ModelReport, ModelRow
from graphut.experiments.bench.problem import CPU, check_heads
from graphut.experiments.bench.rectangle import Rectangle, padded_mask
from graphut.experiments.bench.schedule import FRACTIONS, SHARE, depths, nobody_halts
from graphut.experiments.bench.sizes import Sizes
from graphut.experiments.bench.timing import interleaved
from graphut.nn import (
    AdaptiveRecurrence,
    MultiHeadAttention,
    Ponder,
    PositionwiseTransition,
    ScheduledHalting,
    UniversalTransformerStep,
)
from graphut.topology import Topology


@dataclass(frozen=True, kw_only=True)
class ModelProblem:
    """A recurrence to run over a batch of sentences.

    Parameters
    ----------
    topology : Topology
        Who attends to whom.
    sizes : Sizes
        The sentences.
    dim, heads : int
        Features of a node, and heads; the transition has four times as many.
    backend : str
        Of the recurrence's attention.
    device : torch.device
        Where to run.
    halting : bool
        Whether nodes halt as in `FRACTIONS`, or all at the cap.

    Raises
    ------
    ValueError
        If the topology has nodes that are not tokens, or features do not divide into heads.
    """

    topology: Topology
    sizes: Sizes
    dim: int = 128
    heads: int = 8
    backend: str = "auto"
    device: torch.device = CPU
    halting: bool = True

    def __post_init__(self) -> None:
        check_heads(self.dim, self.heads)
        if self.topology.has_extra_nodes:
            raise ValueError(
                f"{self.topology} has nodes that are not tokens, for which a padded model has no "
                "place: choose another topology"
            )


def bench_model(
    problem: ModelProblem, *, repeats: int = 9, nobody_halts: bool = False
) -> ModelReport:
    """Compare, time and weigh the two models, forward and forward with backward.

    Both have the same weights and halt by the same schedule, in float32. Outputs and gradients
    are compared first; if they differ, there are no figures.

    Parameters
    ----------
    problem : ModelProblem
        What to run.
    repeats : int
        Timed rounds.
    nobody_halts : bool
        Measure also with every node at the cap.

    Examples
    --------
    >>> from graphut.topology import Causal
    >>> report = bench_model(ModelProblem(topology=Causal(), sizes=Sizes(2, 3, 5), dim=16),
    ...                      repeats=1)
    >>> [row.what for row in report.rows], report.rows[0].reason
    (['forward', 'forward+backward'], None)
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    variants = [problem, replace(problem, halting=False)] if nobody_halts else [problem]
    rows = [row for variant in variants for row in _Pair(variant).measure(repeats)]
    return ModelReport(rows, dated_machine(problem.device))


class _Pair:
    """The two models, with inputs of the same numbers."""

    def __init__(self, problem: ModelProblem) -> None:
        torch.manual_seed(0)
        self.problem, device = problem, problem.device
        lengths = problem.sizes.lengths()
        self.layout = problem.topology.layout(lengths).to(device)
        nodes = self.layout.num_src
        depth = (depths if problem.halting else nobody_halts)(nodes).to(device)
        self.step = UniversalTransformerStep(
            MultiHeadAttention(problem.dim, problem.heads, backend=problem.backend),
            # Smooth: a ReLU next to zero may flip between two right models.
            PositionwiseTransition(problem.dim, 4 * problem.dim, activation=nn.GELU()),
        ).to(device)
        cap = len(FRACTIONS)
        halting = ScheduledHalting(depth, share=SHARE)
        self.adaptive = AdaptiveRecurrence(self.step, halting, max_steps=cap, halted="copied")
        self.rectangle = Rectangle.of(lengths.to(device))
        # A model that pads does not know when all lengths are the same: it always has a mask.
        mask = padded_mask(self.rectangle, self.rectangle, self.layout.in_edges()[:2])
        self.dense = PaddedModel(self.step, mask, max_steps=cap, share=SHARE)
        self.positions = self.rectangle.place[:, 1] + 1
        feat, upstream = torch.randn(2, nodes, problem.dim).to(device)
        self.feat = feat.requires_grad_()
        self.upstream = upstream
        self.table = self.rectangle.spread(feat.detach()).requires_grad_()
        self.table_upstream = self.rectangle.spread(upstream)
        self.depth_table = self.rectangle.spread(depth)

    def measure(self, repeats: int) -> list[ModelRow]:
        """A row for each pass."""
        error, bound = self._compare()
        rows = [
            ModelRow(self.problem, what, error, bound) for what in ("forward", "forward+backward")
        ]
        for row, backward in zip(rows, (False, True), strict=True):
            if not error <= TOLERANCE[torch.float32]:
                row.reason = f"wrong by {error:.0e}"
                continue
            runs = {
                "dense": lambda backward=backward: self.run_dense(backward),
                "adaptive": lambda backward=backward: self.run_adaptive(backward)[0],
            }
            times = interleaved(runs, repeats, self.problem.device)
            row.dense, row.adaptive = times["dense"], times["adaptive"]
            row.dense_peak, row.adaptive_peak = (
                peak_bytes(run, self.problem.device) for run in runs.values()
            )
        return rows

    def run_dense(self, backward: bool) -> list[Tensor]:
        """The output and the gradients of features and parameters, in the rectangle."""
        with torch.set_grad_enabled(backward):
            out = self.dense(self.table, self.depth_table)
        return [out.detach(), *self._backward(out, self.table, self.table_upstream, backward)]

    def run_adaptive(self, backward: bool) -> tuple[list[Tensor], Ponder]:
        """The same, packed, and the record of the run."""
        with torch.set_grad_enabled(backward):
            out, ponder = self.adaptive(self.layout, self.feat, positions=self.positions)
        return [out.detach(), *self._backward(out, self.feat, self.upstream, backward)], ponder

    def _backward(
        self, out: Tensor, feat: Tensor, upstream: Tensor, backward: bool
    ) -> tuple[Tensor, ...]:
        inputs = (feat, *self.step.parameters())
        return torch.autograd.grad(out, inputs, upstream) if backward else ()

    def _compare(self) -> tuple[float, float]:
        """How far the two are apart, and how many times fewer operations the adaptive one does."""
        found, ponder = self.run_adaptive(True)
        out, to_feat, *others = self.run_dense(True)
        expected = [self.rectangle.back(out), self.rectangle.back(to_feat), *others]
        # One vector for all weights: a bias of keys has no gradient but rounding.
        error = largest_error([*found[:2], _flat(found[2:])], [*expected[:2], _flat(expected[2:])])
        return error, self._dense_flops(ponder) / int(ponder.flops)

    def _dense_flops(self, ponder: Ponder) -> int:
        """Operations of the padded model, whose attention is a square a sentence."""
        places, longest = self.rectangle.present.numel(), self.rectangle.present.shape[1]
        by_node = ponder.node_flops + ponder.key_value_flops
        return len(FRACTIONS) * places * (by_node + longest * ponder.edge_flops)


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([x.flatten() for x in tensors])
