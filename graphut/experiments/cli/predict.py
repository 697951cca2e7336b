"""`graphut predict`: write a model's predictions for the user's own graphs."""

import csv
import io
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphut._files import encode_json, write_atomically
from graphut.experiments.cli.options import pick_device
from graphut.experiments.messages import pluralize
from graphut.experiments.tasks.graph_files import read_graphs
from graphut.experiments.training.learners.graphs import GraphLearner

Rows = Sequence[Mapping[str, Any]]


def main(arguments: Namespace) -> int:
    """Write the predictions of a model for the graphs in a file or folder."""
    encode = _ENCODERS[Path(arguments.out).suffix.lower()]
    run, files = arguments.run, read_graphs(arguments.data, target=None)
    learner = run.learner(run.trained_model(pick_device(arguments.device)))
    assert isinstance(learner, GraphLearner)
    rows = [*learner.prediction_rows(files)]
    write_atomically(arguments.out, encode(rows))
    counts = pluralize(len(rows), "prediction"), pluralize(len(files), "graph")
    print(f"{counts[0]} for {counts[1]} in {arguments.out}")
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
