"""Plot accuracy against the number of edges, for windows of growing size and for shortcuts.

To reverse a sentence, tokens must travel from one end to the other. With a narrow window this takes
many steps. One global token is a shortcut that costs two edges per token.

    python examples/compare_topologies.py

The picture needs matplotlib: pip install matplotlib
"""

import argparse
from pathlib import Path

from graphut import UniversalTransformerConfig
from graphut.experiments.comparison import ComparisonRow, compare_topologies, comparison_text
from graphut.experiments.tasks import Reverse
from graphut.experiments.training import TrainingConfig
from graphut.plotting.figure import BLUE, ORANGE, new_figure

WINDOWS = ["window:0", "window:1", "window:2", "window:4", "complete"]
SHORTCUTS = ["window:1|global:0", "star"]


def main(task: Reverse, training: TrainingConfig, folder: str) -> list[ComparisonRow]:
    letters = len(task.source_vocabulary)
    config = UniversalTransformerConfig(
        source_vocab=letters,
        target_vocab=letters,
        d_model=32,
        d_hidden=64,
        max_steps=4,
        cross_topology="window:0",  # only the encoder can move tokens
    )
    figure = new_figure(7, 4.5)  # fails before the training if matplotlib is missing
    rows = compare_topologies(WINDOWS + SHORTCUTS, task, training, config, folder)
    print(comparison_text(rows))

    axes = figure.subplots()
    edges = [row.edges for row in rows]
    accuracy = [100 * row.evaluations[0]["token_accuracy"] for row in rows]
    windows = len(WINDOWS)
    axes.plot(edges[:windows], accuracy[:windows], "o-", color=BLUE, label="windows")
    axes.plot(edges[windows:], accuracy[windows:], "s", color=ORANGE, label="shortcuts")
    for number, row in enumerate(rows):
        place = (5, -12 if number < windows else 6)
        axes.annotate(
            row.topology, (edges[number], accuracy[number]), place, textcoords="offset points"
        )
    axes.set(xlabel="encoder edges of a sentence", ylabel="token accuracy, %", ylim=(0, 105))
    axes.set_xlim(0, 1.25 * max(edges))
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(Path(folder, "edges.png"))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    help = "where to keep the runs and the picture (default: runs/compare)"
    parser.add_argument("folder", nargs="?", default="runs/compare", help=help)
    parser.add_argument("--epochs", type=int, default=12, help="of each run (default: 12)")
    options = parser.parse_args()
    task = Reverse(mean_length=6, length_deviation=1, epoch_size=4000, held_out=500)
    try:
        training = TrainingConfig(
            epochs=options.epochs, learning_rate=4e-3, warmup=60, ponder_warmup=0
        )
        main(task, training, options.folder)
    except (FileExistsError, ImportError, ValueError) as error:
        parser.error(str(error))
