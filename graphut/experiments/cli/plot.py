"""`graphut plot`: draw the training curves of runs."""

from argparse import Namespace

from graphut._files import reraise_for_file
from graphut.experiments.training.run_files import METRICS, read_metrics
from graphut.plotting import draw_training
from graphut.plotting.figure import save_figure


def main(arguments: Namespace) -> int:
    """Draw the training curves of runs: loss, accuracy and steps in each epoch."""
    folders = [run.folder for run in arguments.runs]
    names = [folder.absolute().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    files = [folder / METRICS for folder in folders]
    runs = {name: read_metrics(file) for name, file in zip(names, files, strict=True)}
    for name, epochs in runs.items():
        if not epochs:
            raise ValueError(f"no epoch of the run {name} is complete: there is nothing to draw")
    with reraise_for_file(", ".join(map(str, files))):
        figure = draw_training(runs)
    save_figure(figure, arguments.out)
    print(arguments.out)
    return 0
