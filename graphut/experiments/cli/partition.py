"""`graphut partition`: divide a graph among processes."""

from __future__ import annotations

from argparse import Namespace

from graphut.experiments.tasks.graphs import Graphs
from graphut.experiments.wording import pluralize


def main(arguments: Namespace) -> int:
    """Divide a graph into one part per process, in a folder for `graphut train graphs --data`."""
    task, parts = Graphs(arguments.data, target=arguments.target), arguments.parts
    folder = task.divide(arguments.out, parts, arguments.method)
    print(
        f"{pluralize(parts, 'part')} in {folder}: torchrun --nproc-per-node {parts} -m graphut "
        f"train graphs --data {folder} --out RUN"
    )
    return 0
