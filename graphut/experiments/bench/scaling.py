"""The benchmark of growth: time and memory of one attention layer by the number of tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import linear_regression
from typing import Any

import torch
from torch import Tensor

from graphut.experiments.bench.peak_memory import peak_bytes
from graphut.experiments.bench.report import Report
from graphut.experiments.bench.timing import interleaved
from graphut.experiments.bench.workloads import CPU, check_tokens_only
from graphut.experiments.machine import dated_machine
from graphut.nn import MultiHeadAttention
from graphut.topology import Topology, Window

NODES = (10_000, 31_623, 100_000, 316_228, 1_000_000)
WINDOW = Window(16)


def bench_scaling(
    *,
    topology: Topology = WINDOW,
    nodes: Sequence[int] = NODES,
    dim: int = 64,
    heads: int = 8,
    backend: str = "auto",
    device: torch.device = CPU,
    repeats: int = 5,
) -> Report:
    """Measure time and memory of one attention layer, forward, over longer and longer sentences.

    `nodes` are the tokens of each sentence. Each pass makes the layout of its sentence anew, and no
    graph. The sentences are run in turns, `repeats` times each. The report is what a JSON file of
    it holds: seconds and bytes. Raise `ValueError` if there are not two different numbers of
    tokens, or one is not positive; if the topology has nodes that are not tokens.

    Examples
    --------
    >>> report = bench_scaling(nodes=[50, 100], dim=8, heads=2, repeats=1)
    >>> [row["edges"] for row in report["rows"]]
    [1378, 3028]
    """
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
        {
            "nodes": n,
            "edges": topology.num_edges(n),
            "seconds": times[str(n)],
            "peak_bytes": peak_bytes(runs[str(n)], device),
        }
        for n in sizes
    ]
    return {
        "bench": "scaling",
        "machine": dated_machine(device),
        "topology": str(topology),
        "dim": dim,
        "heads": heads,
        **slopes(rows),
        "rows": rows,
    }


def slopes(rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the log-log slopes of time and memory over nodes; `None` for unknown memory."""
    nodes = [math.log(row["nodes"]) for row in rows]
    times = [math.log(row["seconds"]["median"]) for row in rows]
    peaks = [math.log(row["peak_bytes"]) for row in rows if row["peak_bytes"]]
    memory = linear_regression(nodes, peaks).slope if len(peaks) == len(nodes) else None
    return {"time_slope": linear_regression(nodes, times).slope, "memory_slope": memory}


def _forward(layer: MultiHeadAttention, topology: Topology, feat: Tensor) -> Callable[[], object]:
    # The peak is measured on a thread of its own, where gradients are on by default.
    @torch.no_grad()
    def run() -> object:
        return layer(topology.layout([len(feat)]), feat)

    return run
