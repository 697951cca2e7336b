"""How time and memory of one attention layer grow with the number of tokens."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphut.experiments.bench.machine import dated_machine
from graphut.experiments.bench.memory import peak_bytes
from graphut.experiments.bench.problem import CPU
from graphut.experiments.bench.table import aligned, digits
from graphut.experiments.bench.timing import Times, interleaved
from graphut.nn import MultiHeadAttention
from graphut.topology import Topology, Window

NODES = (10_000, 31_623, 100_000, 316_228, 1_000_000)
WINDOW = Window(16)
_MIB = 1 << 20


@dataclass(frozen=True)
class ScalingRow:
    """One sentence.

    Parameters
    ----------
    nodes, edges : int
        Of its graph.
    times : Times
        Of one forward pass.
    peak : int, optional
        Bytes held at most above weights and features.
    """

    nodes: int
    edges: int
    times: Times
    peak: int | None


@dataclass(frozen=True)
class ScalingReport:
    """All sentences, and how steep time and memory are.

    Parameters
    ----------
    topology : Topology
        Who attends to whom.
    dim, heads : int
        Features of a node, and heads of the layer.
    rows : list of ScalingRow
        By number of tokens.
    machine : dict
        Where and with what.
    """

    topology: Topology
    dim: int
    heads: int
    rows: list[ScalingRow]
    machine: dict[str, object]

    @property
    def time_slope(self) -> float:
        """Of the median time over the number of nodes, both as logarithms; 1 is linear."""
        return _slope([(row.nodes, row.times.median) for row in self.rows])

    @property
    def memory_slope(self) -> float | None:
        """The same of the peak memory, where that is known."""
        known = [(row.nodes, float(row.peak)) for row in self.rows if row.peak]
        return _slope(known) if len(known) == len(self.rows) else None

    def text(self) -> str:
        """The table, under a line that says what was computed."""
        head = ["nodes", "edges", "ms", "quartiles", "ns a node", "peak MiB", "bytes a node"]
        memory = "?" if self.memory_slope is None else f"{self.memory_slope:.2f}"
        return "\n".join(
            [
                f"{self.topology} on one sentence, {self.dim} features in {self.heads} heads; "
                "layout and forward pass of one attention layer, float32; "
                f"{'gpu' if self.machine['gpu'] else 'cpu'}, {self.machine['threads']} threads",
                "",
                aligned(head, [_cells(row) for row in self.rows]),
                "",
                f"log-log slope: time {self.time_slope:.2f}, memory {memory} (1 is linear)",
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """The report for a JSON file: seconds and bytes."""
        return {
            "bench": "scaling",
            "machine": self.machine,
            "topology": str(self.topology),
            "dim": self.dim,
            "heads": self.heads,
            "time_slope": self.time_slope,
            "memory_slope": self.memory_slope,
            "rows": [
                {
                    "nodes": row.nodes,
                    "edges": row.edges,
                    "seconds": vars(row.times),
                    "peak_bytes": row.peak,
                }
                for row in self.rows
            ],
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
    """Time and weigh one attention layer, forward, over longer and longer sentences.

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
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    sizes = sorted(set(nodes))
    if len(sizes) < 2:
        raise ValueError(f"a slope takes two different numbers of nodes at least, got {[*nodes]}")
    if sizes[0] < 1:
        raise ValueError(f"a sentence has at least 1 token, got nodes={[*nodes]}")
    if topology.has_extra_nodes:
        raise ValueError(
            f"{topology} has nodes that are not tokens, which a layer alone has no features of: "
            "choose another topology"
        )
    torch.manual_seed(0)
    layer = MultiHeadAttention(dim, heads, backend=backend).to(device).eval()
    runs = {str(n): _forward(layer, topology, torch.randn(n, dim, device=device)) for n in sizes}
    # Small sizes are to find their data where large ones do: not in the caches.
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
    """Of the straight line through the logarithms."""
    x, y = ([math.log(value) for value in values] for values in zip(*points, strict=True))
    return statistics.linear_regression(x, y).slope


def _cells(row: ScalingRow) -> list[str]:
    times, peak = row.times, row.peak
    return [
        f"{row.nodes:,}",
        f"{row.edges:,}",
        digits(1e3 * times.median),
        f"{digits(1e3 * times.lower)}-{digits(1e3 * times.upper)}",
        digits(1e9 * times.median / row.nodes),
        "?" if peak is None else f"{peak / _MIB:.1f}",
        "?" if peak is None else digits(peak / row.nodes),
    ]
