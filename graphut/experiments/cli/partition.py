"""`graphut partition`: divide a graph among processes."""

import shlex
from argparse import Namespace

from graphut.experiments.messages import pluralize
from graphut.experiments.tasks.own_graphs import Graphs


def main(arguments: Namespace) -> int:
    """Divide a graph into one part per process, in a folder for `graphut train graphs --data`."""
    task, parts = Graphs(arguments.data, target=arguments.target), arguments.parts
    folder = task.divide(arguments.out, parts, arguments.method)
    words = ["torchrun", "--nproc-per-node", str(parts), "-m", "graphut", "train", "graphs"]
    words += ["--data", str(folder), "--out", "RUN"]
    if arguments.target != "class":
        words += ["--target", arguments.target]
    print(f"{pluralize(parts, 'part')} in {folder}: {shlex.join(words)}")
    return 0
