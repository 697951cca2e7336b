"""`graphut predict` and `partition`: commands for the user's own graphs."""

import csv
import io
import shlex
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from graphut._files import encode_json, write_atomically
from graphut.experiments.cli.options import pick_device
from graphut.experiments.messages import pluralize
from graphut.experiments.tasks.graph_files import read_graphs
from graphut.experiments.tasks.own_graphs import Graphs
from graphut.experiments.training.learners.graphs import GraphLearner
from graphut.experiments.training.processes import all_gather, is_first, process_group

Rows = Sequence[Mapping[str, Any]]


@process_group()
def predict(arguments: Namespace) -> int:
    """Write the predictions of a model for the graphs in a file or folder.

    The processes of `torchrun` share the work if `graphut partition` has divided the graph.
    """
    encode = _ENCODERS[Path(arguments.out).suffix.lower()]
    run, files = arguments.run, read_graphs(arguments.data, target=None)
    learner = run.learner(run.trained_model(pick_device(arguments.device)))
    assert isinstance(learner, GraphLearner)
    rows = [*learner.prediction_rows(files)]
    if (part := files[0].part) is not None:
        every = chain(*all_gather([[*zip(part.nodes.tolist(), rows, strict=True)]]))
        rows = [row for _, row in sorted(every, key=lambda pair: pair[0])]
    if not is_first():
        return 0
    write_atomically(arguments.out, encode(rows))
    counts = pluralize(len(rows), "prediction"), pluralize(len(files), "graph")
    print(f"{counts[0]} for {counts[1]} in {arguments.out}")
    return 0


def partition(arguments: Namespace) -> int:
    """Divide a graph into one part per process, in a folder for `graphut train graphs --data`."""
    task, parts = Graphs(arguments.data, target=arguments.target), arguments.parts
    folder = task.divide(arguments.out, parts, arguments.method)
    words = ["torchrun", "--nproc-per-node", str(parts), "-m", "graphut", "train", "graphs"]
    words += ["--data", str(folder), "--out", "RUN"]
    if arguments.target != "class":
        words += ["--target", arguments.target]
    print(f"{pluralize(parts, 'part')} in {folder}: {shlex.join(words)}")
    return 0


def _as_csv(rows: Rows) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


_ENCODERS: Mapping[str, Callable[[Rows], bytes]] = {
    ".csv": _as_csv,
    ".json": lambda rows: encode_json([*rows]),
}
