"""`graphut eval`."""

from __future__ import annotations

from argparse import SUPPRESS
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from graphut.experiments.cli.device import add_device, pick_device
from graphut.experiments.cli.options import Parser, add_options, check_options, field_names
from graphut.experiments.records.record import RunRecord
from graphut.experiments.records.setup import DATA
from graphut.experiments.result_table import append_rows, check_table
from graphut.experiments.training import Run
from graphut.experiments.training.evaluation import save_evaluation
from graphut.experiments.training.learners import LEARNERS
from graphut.experiments.training.run_files import model_digest
from graphut.experiments.wording import counted
from graphut.models.base import AdaptiveModel
from graphut.nn import EventDriven, parse_rule


@dataclass(frozen=True)
class ResultFiles:
    """The CSV files to which evaluations are appended."""

    rows: str | None = None  # one row for each test set
    curves: str | None = None  # rows by length, by difficulty and by group

    def check(self) -> None:
        """Raise `ValueError` or `OSError` if a file cannot be appended to."""
        for path in (self.rows, self.curves):
            if path is not None:
                check_table(path)

    def append(
        self, run: Run, name: str, options: Mapping[str, Any], evaluation: Mapping[str, Any]
    ) -> None:
        """Append the evaluation of a run on a test set."""
        if self.rows is None and self.curves is None:
            return
        record = RunRecord.of(run)
        if self.rows is not None:
            append_rows(self.rows, [record.row(name, options, evaluation)])
        if self.curves is not None:
            append_rows(self.curves, record.curve_rows(name, options, evaluation))


def main(argv: Sequence[str]) -> int:
    """Evaluate the best model of a run on its test sets, and print the results."""
    options = vars(_parser().parse_args(argv))
    folder, name, data, device = (options.pop(key) for key in ("folder", "set", "data", "device"))
    files = ResultFiles(options.pop("results"), options.pop("curves"))
    files.check()
    settings: tuple[str, ...] = ("max_steps", "evaluation_rule")
    changed = {key: options.pop(key) for key in settings if key in options}
    target = pick_device(device)
    run = Run.open(folder)
    check_options(options, run.learner.evaluation_options, f"the task {run.task_name}")
    # Read the digest before the weights: if a run that still trains replaces them in between, the
    # evaluation is recognised as that of another model.
    digest = model_digest(folder) if data is None else None
    model = run.trained_model(target)
    if "evaluation_rule" in changed:
        model.evaluation_rule = parse_rule(changed["evaluation_rule"])
    if "max_steps" in changed:
        set_max_steps(model, changed["max_steps"])
    if data is not None:
        sets: Mapping[str, Sequence[Any]] = {
            data: run.learner.read(data, run.vocabularies, model.config, run.task(check_data=False))
        }
    else:
        sets = test_sets(run, name)
    for label, examples in sets.items():
        evaluate_set(run, model, label, examples, options, changed, digest=digest, files=files)
    return 0


def set_max_steps(model: AdaptiveModel, steps: int) -> None:
    """Set the limit of steps, or of rounds where the rule of evaluation is `EventDriven`."""
    model.max_steps = steps
    if isinstance(rule := model.evaluation_rule, EventDriven):
        model.evaluation_rule = replace(rule, max_rounds=steps)


def test_sets(run: Run, name: str | None) -> Mapping[str, Sequence[Any]]:
    """Return the test sets of a run's task, or the one of a name."""
    sets = run.task().test_sets
    if name is None:
        return sets
    if name not in sets:
        has = ", ".join(sets)
        raise ValueError(f"{run.task_name} has no test set {name!r}; it has: {has}")
    return {name: sets[name]}


def evaluate_set(
    run: Run,
    model: AdaptiveModel,
    name: str,
    examples: Sequence[Any],
    options: Mapping[str, Any],
    changed: Mapping[str, Any] = MappingProxyType({}),
    *,
    digest: str | None,
    files: ResultFiles,
) -> None:
    """Print the evaluation of a model on a set, write it into the run's folder and append it.

    `changed` has the settings of the model that differ from those of the run. The file in the
    folder names the model by the `digest` of its weights; without a digest it is not written, and
    rows are appended only if `files` names any.
    """
    learner = run.learner
    evaluation, details = learner.evaluate_in_detail(model, run.vocabularies, examples, **options)
    print(f"{name}, {counted(len(examples), learner.example)}: {evaluation}", flush=True)
    if digest is None and files == ResultFiles():
        return
    asked = {**changed, **options}
    details = {**learner.count_flops(model, examples, run.training.batch_size), **details}
    if digest is not None:
        known = {"options": asked, "model": digest, **details}
        save_evaluation(run.folder, name, len(examples), evaluation, known)
    test_set = name if digest is not None else f"{DATA}{Path(name).name}"
    numbers = {"examples": len(examples), **evaluation.metrics, **details}
    files.append(run, test_set, asked, numbers)


def add_results(parser: Parser) -> None:
    """Add the options that name `ResultFiles`."""
    help = "append a row for each test set to this CSV file: task, preset, options, seed, metrics, "
    help += "cost, versions, processor and commit; several processes may append to one file"
    parser.add_argument("--results", metavar="FILE", help=help)
    help = "append the metrics by length, by difficulty and by group to this CSV file, for charts"
    parser.add_argument("--curves", metavar="FILE", help=help)


def _parser() -> Parser:
    parser = Parser(
        prog="graphut eval",
        description="Evaluate the best model of a run: let it answer the test examples and compare "
        "its answers with the correct ones. The metrics of each test set, as a whole and by "
        "length, difficulty or group, are also written into the folder: evaluation-NAME.json.",
    )
    parser.add_argument("folder", metavar="FOLDER", help="the folder of a run")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--set", metavar="NAME", help="one test set (default: all of the task)")
    help = "pairs, stories, graphs or, of char-lm, a text of one's own, not the test sets"
    which.add_argument("--data", metavar="FILE", help=help)
    help = "steps that a node may take (default: as in training)"
    parser.add_argument("--max-steps", type=int, default=SUPPRESS, metavar="N", help=help)
    help = "when a node halts, such as threshold:threshold=0.8 (default: as the run has it)"
    parser.add_argument("--evaluation-rule", default=SUPPRESS, metavar="RULE", help=help)
    add_results(parser)
    add_device(parser)
    group = parser.add_argument_group("where the model writes")
    for learner in LEARNERS.values():
        others = set(field_names(learner.generation_kind)) - set(learner.evaluation_options)
        add_options(group, learner.generation_kind, others)
    return parser
