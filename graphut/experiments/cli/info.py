"""`graphut info`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphut._files import reraise_for_file
from graphut.experiments.cli.options import Parser
from graphut.experiments.records.setup import training_commands
from graphut.experiments.training import Run
from graphut.experiments.training.progress import Progress
from graphut.experiments.training.run_files import METRICS, read_metrics
from graphut.experiments.wording import counted


def main(argv: Sequence[str]) -> int:
    """Print what is in the folder of a run."""
    parser = Parser(prog="graphut info", description="Say what is in a folder.")
    parser.add_argument("folder", metavar="FOLDER", help="the folder of a run")
    run = Run.open(parser.parse_args(argv).folder)
    model = run.model()
    weights = sum(parameter.numel() for parameter in model.parameters())
    print(f"task      {run.task_name}: {_listing(run.task_options)}")
    print(f"model     {weights:,} weights: {_listing(model.config.to_dict())}")
    print(f"training  {_listing(vars(run.training))}")
    commands = training_commands(run.task_name, run.options, run.history)
    print("\n".join(f"{'command':10}{command}" for command in commands))
    print(f"progress  {_progress(run)}")
    return 0


def _listing(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value or repr(value)}" for name, value in values.items())


def _progress(run: Run) -> str:
    metrics = read_metrics(run.folder / METRICS)
    if not metrics:
        return "no epoch is done yet"
    with reraise_for_file(run.folder / METRICS):
        found = Progress.replayed(metrics, run.training, run.learner.evaluation)
        return (
            f"{counted(found.epoch, 'epoch')}, {counted(found.update, 'update')}, "
            f"{metrics[-1]['seconds']} seconds; best on the validation set: {found.best}, after "
            f"{counted(found.best_epoch, 'epoch')}"
        )
