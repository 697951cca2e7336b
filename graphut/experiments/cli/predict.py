"""`graphut predict`: write a model's predictions for the user's own graphs."""

from argparse import Namespace

from graphut._files import write_atomically
from graphut.experiments.cli.options import pick_device
from graphut.experiments.messages import pluralize
from graphut.experiments.records import as_csv
from graphut.experiments.tasks.graph_files import read_graphs
from graphut.experiments.training.learners.graphs import GraphLearner


def main(arguments: Namespace) -> int:
    """Write the predictions of a model for the graphs in a file or folder."""
    run, files = arguments.run, read_graphs(arguments.data, target=None)
    learner = run.learner(run.trained_model(pick_device(arguments.device)))
    assert isinstance(learner, GraphLearner)
    rows = [*learner.prediction_rows(files)]
    write_atomically(arguments.out, as_csv(rows))
    counts = pluralize(len(rows), "prediction"), pluralize(len(files), "graph")
    print(f"{counts[0]} for {counts[1]} in {arguments.out}")
    return 0
