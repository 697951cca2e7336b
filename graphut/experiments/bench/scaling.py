"""The benchmark of growth: time and memory of one attention layer by the number of tokens."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphut.experiments.bench.peak_memory import peak_bytes
from graphut.experiments.bench.timing import Times, interleaved
from graphut.experiments.bench.workloads import CPU, check_repeats, check_tokens_only
from graphut.experiments.machine import dated_machine
from graphut.experiments.tables import mebibytes, plain_table, three_digits
from graphut.nn import MultiHeadAttention
from graphut.topology import Topology, Window

NODES = (10_000, 31_623, 100_000, 316_228, 1_000_000)
WINDOW = Window(16)
_HEAD = ["nodes", "edges", "ms", "quartiles", "ns a node", "peak MiB", "bytes a node"]


@dataclass(frozen=True)
class ScalingRow:
    """The forward pass over one sentence."""

    nodes: int
    edges: int
    times: Times
    peak: int | None  # the most bytes held above weights and features

    def cells(self) -> list[str]:
        """Return a line of the table."""
        return [
            f"{self.nodes:,}",
            f"{self.edges:,}",
            *self.times.cells(),
            three_digits(1e9 * self.times.median / self.nodes),
            mebibytes(self.peak),
            "?" if self.peak is None else three_digits(self.peak / self.nodes),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the row for a JSON file: seconds and bytes."""
        sizes = {"nodes": self.nodes, "edges": self.edges}
        return {**sizes, "seconds": vars(self.times), "peak_bytes": self.peak}


@dataclass(frozen=True)
class ScalingReport:
    """All sentences, by their number of tokens, and the slopes of time and memory."""

    topology: Topology
    dim: int
    heads: int
    rows: list[ScalingRow]
    machine: dict[str, object]

    @property
    def time_slope(self) -> float:
        """The slope of the median time over the number of nodes in logarithms; 1 is linear."""
        return _slope([(row.nodes, row.times.median) for row in self.rows])

    @property
    def memory_slope(self) -> float | None:
        """The same slope of the peak memory, where that is known."""
        known = [(row.nodes, float(row.peak)) for row in self.rows if row.peak]
        return _slope(known) if len(known) == len(self.rows) else None

    def text(self) -> str:
        """Return the table, under a line that says what was computed."""
        memory = "?" if self.memory_slope is None else f"{self.memory_slope:.2f}"
        return "\n".join(
            [
                f"{self.topology} on one sentence, {self.dim} features in {self.heads} heads; "
                "layout and forward pass of one attention layer, float32; "
                f"{'gpu' if self.machine['gpu'] else 'cpu'}, {self.machine['threads']} threads",
                "",
                plain_table(_HEAD, [row.cells() for row in self.rows]),
                "",
                f"log-log slope: time {self.time_slope:.2f}, memory {memory} (1 is linear)",
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report for a JSON file: seconds and bytes."""
        return {
            "bench": "scaling",
            "machine": self.machine,
            "topology": str(self.topology),
            "dim": self.dim,
            "heads": self.heads,
            "time_slope": self.time_slope,
            "memory_slope": self.memory_slope,
            "rows": [row.to_dict() for row in self.rows],
        }


def bench_scaling(
    *,
    topology: Topology = WINDOW,
    nodes: Sequence[int] = NODES,
    dim: int = 64,
    heads: int = 8,
    backend: str = "auto",
    device: torch.device = CPU,
    repeats: int = 5,
) -> ScalingReport:
    """Measure time and memory of one attention layer, forward, over longer and longer sentences.

    Each pass makes the layout of its sentence anew, and no graph. The sentences are run in turns.

    Parameters
    ----------
    topology : Topology
        Who attends to whom.
    nodes : sequence of int
        Tokens of each sentence, two numbers at least.
    dim, heads : int
        Features of a node, and heads of the layer.
    backend : str
        See `graphut.edge_attention`.
    device : torch.device
        Where the features lie.
    repeats : int
        Timed rounds.

    Raises
    ------
    ValueError
        If there are not two different numbers of tokens, or a number is not positive; if the
        topology has nodes that are not tokens.

    Examples
    --------
    >>> report = bench_scaling(nodes=[50, 100], dim=8, heads=2, repeats=1)
    >>> [row.edges for row in report.rows]
    [1378, 3028]
    """
    check_repeats(repeats)
    sizes = sorted(set(nodes))
    if len(sizes) < 2:
        raise ValueError(f"a slope takes two different numbers of nodes at least, got {[*nodes]}")
    if sizes[0] < 1:
        raise ValueError(f"a sentence has at least 1 token, got nodes={[*nodes]}")
    check_tokens_only(topology, "which a layer alone has no features of")
    torch.manual_seed(0)
    layer = MultiHeadAttention(dim, heads, backend=backend).to(device).eval()
    runs = {str(n): _forward(layer, topology, torch.randn(n, dim, device=device)) for n in sizes}
    # No warm-up: small sentences shall not find their data in the caches if large ones do not.
    times = interleaved(runs, repeats, device, warm_up=0.0)
    rows = [
        ScalingRow(n, topology.num_edges(n), times[str(n)], peak_bytes(runs[str(n)], device))
        for n in sizes
    ]
    return ScalingReport(topology, dim, heads, rows, dated_machine(device))


def _forward(layer: MultiHeadAttention, topology: Topology, feat: Tensor) -> Callable[[], object]:
    # The peak is measured on a thread of its own, where gradients are on by default.
    @torch.no_grad()
    def run() -> object:
        return layer(topology.layout([len(feat)]), feat)

    return run


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the straight line through the logarithms."""
    x, y = ([math.log(value) for value in values] for values in zip(*points, strict=True))
    return statistics.linear_regression(x, y).slope
