"""`graphut eval`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphut.experiments.cli.best_model import best_model
from graphut.experiments.cli.device import add_device, pick_device
from graphut.experiments.cli.judging import judge_set
from graphut.experiments.cli.options import check_options
from graphut.experiments.cli.parser import Parser
from graphut.experiments.cli.search_options import add_search_options
from graphut.experiments.training import Run


def main(argv: Sequence[str]) -> int:
    """Print how good the best model of a run is on each of its test sets."""
    options = vars(_parser().parse_args(argv))
    folder, name, data, device = (options.pop(key) for key in ("folder", "set", "data", "device"))
    target = pick_device(device)
    run = Run.open(folder)
    check_options(options, run.learner.judged_with, f"the task {run.task_name}")
    model = best_model(run, target)
    if data is not None:
        sets: Mapping[str, Sequence[Any]] = {data: run.learner.read(data, run.vocabularies)}
    else:
        sets = _chosen(run.task().test_sets, name, run.task_name)
    for label, examples in sets.items():
        judge_set(run, model, label, examples, options, keep=data is None)
    return 0


def _chosen(
    sets: Mapping[str, Sequence[Any]], name: str | None, task: str
) -> Mapping[str, Sequence[Any]]:
    if name is None:
        return sets
    if name not in sets:
        raise ValueError(f"{task} has no test set {name!r}; it has: {', '.join(sets)}")
    return {name: sets[name]}


def _parser() -> Parser:
    parser = Parser(
        prog="graphut eval",
        description="Judge the best model of a run: let it answer, and compare with what is "
        "right. What is found on a test set is kept in the folder too, as a whole "
        "and in parts: evaluation-NAME.json.",
    )
    parser.add_argument("folder", metavar="FOLDER", help="the folder of a run")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--set", metavar="NAME", help="one test set (default: all of the task)")
    which.add_argument(
        "--data", metavar="FILE", help="pairs or stories of one's own, not the test sets"
    )
    add_device(parser)
    add_search_options(parser, lambda learner: learner.judged_with)
    return parser
