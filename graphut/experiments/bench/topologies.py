"""The benchmark of topologies: the time that an edge of each takes in attention."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from graphut.experiments.bench.attention import checked
from graphut.experiments.bench.attention_workload import AttentionWorkload
from graphut.experiments.bench.driver import CPU, Contender, Row, measure, say


def bench_topologies(
    specs: Sequence[str],
    *,
    nodes: int = 4096,
    dim: int = 128,
    heads: int = 8,
    device: torch.device = CPU,
    repeats: int = 25,
) -> list[Row]:
    """Measure an attention call, forward and backward, on a sentence with each of some topologies.

    The topologies take turns. A row has a note instead of times if the result differs from a
    float64 reference. The column `ns_per_edge` is the time divided by the number of edges, and
    `edge_ratio` this divided by the same figure of the first topology.
    """
    text = f"{nodes} tokens, {dim} features"
    rows: dict[str, Row] = {}
    contenders: dict[str, Contender] = {}
    edges: dict[str, int] = {}
    for spec in specs:
        say(f"comparing {spec} with a float64 reference")
        workload = AttentionWorkload(
            spec=spec, shape=f"1x{nodes}", dim=dim, heads=heads, device=device
        )
        prepare = partial(AttentionWorkload.prepare, backend="auto")
        run, found = checked(workload, prepare, workload.reference())
        rows[spec] = {"workload": text, "contender": spec, **found}
        if run is not None:
            contenders[spec], edges[spec] = run, workload.layout.num_edges
    for row in measure(text, contenders, repeats=repeats, device=device):
        spec = row["contender"]
        rows[spec] |= {**row, "ns_per_edge": 1e6 * row["ms"] / edges[spec]}
    first = rows[specs[0]].get("ns_per_edge")
    for row in rows.values():
        if first and "ns_per_edge" in row:
            row["edge_ratio"] = row["ns_per_edge"] / first
    return [*rows.values()]
