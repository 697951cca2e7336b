"""`graphut info` and `report`: describe runs as text and as a page."""

from argparse import Namespace
from collections.abc import Mapping
from textwrap import TextWrapper
from typing import Any

from graphut._files import write_atomically
from graphut.experiments.cli.options import pick_device
from graphut.experiments.messages import pluralize
from graphut.experiments.report import RunRecord, Setup, run_report
from graphut.experiments.training import Run
from graphut.experiments.training.run_files import METRICS, read_metrics


def info(arguments: Namespace) -> int:
    """Print the task, the model, the options and the progress of a run."""
    run = arguments.run
    model = run.model()
    weights = sum(parameter.numel() for parameter in model.parameters())
    _print("task", f"{run.task_name}: {_listing(run.task_options)}")
    _print("model", f"{weights:,} weights: {_listing(model.config.to_dict())}")
    _print("training", _listing(vars(run.training)))
    _print("progress", _progress(run))
    print(f"command   {Setup.of(run.task_name, run.options, run.imports).command()}")
    return 0


def report(arguments: Namespace) -> int:
    """Write the options, the results and examples of a run as an HTML file."""
    report = run_report(arguments.run, pick_device(arguments.device))
    write_atomically(arguments.out, report.encode())
    print(arguments.out)
    return 0


def _print(name: str, text: str) -> None:
    wrapper = TextWrapper(80, subsequent_indent=10 * " ")
    wrapper.break_on_hyphens = wrapper.break_long_words = False  # a value can be copied
    print(wrapper.fill(f"{name:10}{text}"))


def _listing(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value or repr(value)}" for name, value in values.items())


def _progress(run: Run) -> str:
    if not read_metrics(run.folder / METRICS):
        return "no epoch is complete yet"
    progress = RunRecord.of(run).progress
    return (
        f"{pluralize(progress.epoch, 'epoch')}, {pluralize(progress.update, 'update')}, "
        f"{progress.seconds} seconds; best on the validation set: {progress.best}, after "
        f"{pluralize(progress.best_epoch, 'epoch')}"
    )
