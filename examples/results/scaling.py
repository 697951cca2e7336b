"""Append to bench.csv the time of one attention layer on sentences of increasing length.

    python examples/results/scaling.py

Each timed call builds the edges and runs the forward pass.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from graphut.experiments.bench.driver import CPU, measure, rows_text
from graphut.experiments.machine import benchmark_machine
from graphut.experiments.tables import append_rows
from graphut.nn import MultiHeadAttention
from graphut.topology import parse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--topology", default="window:16", metavar="SPEC")
    sizes = [10_000, 31_623, 100_000, 316_228, 1_000_000]
    parser.add_argument("--nodes", type=int, nargs="+", default=sizes, metavar="N")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--results", default=Path(__file__).with_name("bench.csv"))
    options = parser.parse_args()
    topology, layer = parse(options.topology), MultiHeadAttention(options.dim, num_heads=8).eval()

    @torch.no_grad()  # here, because peak memory is measured on another thread
    def forward(size: int) -> Tensor:
        return layer(topology.layout([size]), torch.zeros(size, options.dim))

    runs = {f"{size} tokens": lambda size=size: forward(size) for size in options.nodes}
    # No warm-up, so that the caches hold as little of short sentences as of long ones.
    title = f"{options.topology}, {options.dim} features"
    rows = measure(title, runs, repeats=options.repeats, device=CPU, warm_up=0.0)
    print(rows_text(rows))
    machine = {**benchmark_machine(CPU), "command": "python examples/results/scaling.py"}
    append_rows(options.results, [{"bench": "scaling", **row, **machine} for row in rows])


if __name__ == "__main__":
    main()
