"""`graphut info`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphut.cli.parser import Parser
from graphut.training import Evaluation, Run
from graphut.training.log import read_metrics
from graphut.training.trainer import METRICS


def main(argv: Sequence[str]) -> int:
    """Print what is in the folder of a run."""
    parser = Parser(prog="graphut info", description="Say what is in a folder.")
    parser.add_argument("folder", help="the folder of a run")
    run = Run.open(parser.parse_args(argv).folder)
    model = run.model()
    weights = sum(parameter.numel() for parameter in model.parameters())
    print(f"task      {run.task_name}: {_listing(run.task_options)}")
    print(f"model     {weights:,} weights: {_listing(model.config.to_dict())}")
    print(f"training  {_listing(vars(run.training))}")
    print(f"progress  {_progress(read_metrics(run.folder / METRICS), run.learner.evaluation_kind)}")
    return 0


def _listing(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _progress(metrics: list[dict[str, Any]], kind: type[Evaluation]) -> str:
    if not metrics:
        return "no epoch is done yet"
    last = metrics[-1]
    best = max(kind.from_dict(line["validation"]) for line in metrics)
    return (
        f"{last['epoch']} epochs, {last['update']} updates, {last['seconds']} seconds; "
        f"best on the validation set: {best}"
    )
