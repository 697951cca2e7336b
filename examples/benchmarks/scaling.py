"""Measure the time of one attention layer on sentences of increasing length.

    python examples/benchmarks/scaling.py --results bench.csv

Each timed call builds the edges and runs the forward pass, with cold caches.
"""

from functools import partial

import common
import torch
from torch import Tensor

from graphut.nn import MultiHeadAttention
from graphut.topology import parse

LENGTHS = (10_000, 31_623, 100_000, 316_228, 1_000_000)

if __name__ == "__main__":
    options = common.parse_options(__doc__, 5, topology="window:16", nodes=LENGTHS, dim=64)
    topology, layer = parse(options.topology), MultiHeadAttention(options.dim, num_heads=8).eval()

    @torch.no_grad()
    def forward(size: int) -> Tensor:
        return layer(topology.layout([size]), torch.zeros(size, options.dim))

    other = torch.zeros(64 << 20, dtype=torch.uint8)
    title, runs = f"{options.topology}, {options.dim} features", {}
    for size in options.nodes:
        runs[f"{size} tokens"] = partial(forward, size)
    rows = common.time_in_turns(title, runs, options.repeats, before=partial(other.add_, 1))
    common.report("scaling", [rows], options.results)
