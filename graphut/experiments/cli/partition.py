"""`graphut partition`: divide a graph among processes."""

from __future__ import annotations

from argparse import Namespace

from graphut.experiments.tasks.graphs import Graphs
from graphut.experiments.wording import pluralize


def main(arguments: Namespace) -> int:
    """Divide a graph into parts, and write them to a folder that `--data` can name."""
    task, parts = Graphs(arguments.data, target=arguments.target), arguments.parts
    folder = task.divide(arguments.out, parts, arguments.method)
    print(
        f"{pluralize(parts, 'part')} in {folder}: torchrun --nproc-per-node {parts} -m graphut "
        f"train graphs --data {folder} --out RUN"
    )
    return 0
