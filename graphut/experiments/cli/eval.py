"""`graphut eval`: evaluate the model of a run."""

import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphut._files import write_json
from graphut._version import __version__
from graphut.experiments.cli.options import pick_device
from graphut.experiments.messages import pluralize
from graphut.experiments.training import Run
from graphut.experiments.training.config import EVALUATION_OPTIONS
from graphut.experiments.training.learners import AnyLearner
from graphut.experiments.training.processes import is_first, process_group
from graphut.nn import EventDriven, parse_rule


@process_group()
def main(arguments: Namespace) -> int:
    """Evaluate the best model of a run on its test sets, and print the results.

    Processes that `torchrun` has started share the work.
    """
    data, options = arguments.data, vars(arguments)
    search = {name: options[name] for name in EVALUATION_OPTIONS if name in options}
    run, changed, target = arguments.run, arguments.changed, pick_device(arguments.device)
    learner = run.learner(run.trained_model(target))
    model = learner.model
    if "evaluation_rule" in changed:
        model.evaluation_rule = parse_rule(rule) if (rule := changed["evaluation_rule"]) else None
    if "max_steps" in changed:
        model.max_steps = changed["max_steps"]
        if isinstance(rule := model.evaluation_rule, EventDriven):
            model.evaluation_rule = replace(rule, max_rounds=changed["max_steps"])
    task = run.task(check_data=data is None)
    names = [data] if data is not None else [arguments.set] if arguments.set else task.test_sets
    for name in names:
        if data is None and name not in task.test_sets:
            has = f"it has: {', '.join(task.test_sets)}"
            raise ValueError(f"{run.task_name} has no test set {name!r}; {has}")
        examples = task.load(name) if data is None else learner.read(name, task)
        table, is_own = arguments.results, data is not None
        evaluate_set(run, learner, name, examples, search, changed, table, is_own=is_own)
    return 0


def evaluate_set(
    run: Run,
    learner: AnyLearner,
    name: str,
    examples: Sequence[Any],
    options: Mapping[str, Any],
    changed: Mapping[str, Any],
    table: str | None,
    *,
    is_own: bool = False,
) -> None:
    """Evaluate a model on a test set; print and save the metrics, and append them to a CSV `table`.

    `options` are for the evaluation, such as `beam_size`, and `changed` are settings of the model
    that differ from the run. If the test set is the user's own file, no `evaluation-NAME.json` is
    saved.
    """
    evaluation, details = learner.evaluate_in_detail(examples, **options)
    print(f"{name}, {pluralize(len(examples), learner.example)}: {evaluation}", flush=True)
    if not is_first() or (is_own and table is None):
        return
    options = {**changed, **options}
    details = {**learner.count_flops(examples, run.training.batch_size), **details}
    if not is_own:
        head = {"graphut": __version__, "set": name, "examples": len(examples)}
        tail = {"options": options, **details}
        suffix = "".join(f",{key}={value}" for key, value in options.items())
        safe = re.sub(r"[^\w.,=+-]", "_", suffix)  # on all file systems
        write_json(
            run.folder / f"evaluation-{name}{safe}.json", {**head, **evaluation.metrics, **tail}
        )
    if table is not None:
        from graphut.experiments.records import append_rows
        from graphut.experiments.report import DATA, RunRecord

        name = f"{DATA}{Path(name).name}" if is_own else name
        record = RunRecord.of(run)
        numbers = {"examples": len(examples), **evaluation.metrics, **details}
        append_rows(table, [record.row(name, options, numbers)])
