"""`graphut train`: train a model on a task."""

import shlex
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from textwrap import fill
from typing import Any

import torch

from graphut.experiments.cli.eval import evaluate_set
from graphut.experiments.cli.options import build, pick_device
from graphut.experiments.messages import import_words, pluralize
from graphut.experiments.records import describe_machine
from graphut.experiments.tasks import TASKS, Task, preset_of
from graphut.experiments.training import Run, Trainer, TrainingConfig, learner_of
from graphut.experiments.training.processes import barrier, is_first, process_group
from graphut.experiments.training.run_files import tensorboard_log

_SHOWN = 3  # test examples that are answered after training


@process_group()
def main(arguments: Namespace) -> int:
    """Train a model; then evaluate the best model on the test set and print a few answers.

    Processes that `torchrun` has started share the work.
    """
    folder, device = arguments.out, pick_device(arguments.device)
    if is_first():
        resumed = arguments.run if arguments.resume else None
        run, task = _create(arguments) if resumed is None else (resumed, resumed.task())
        run = replace(run, machine=describe_machine(device)).write()
    barrier()
    if not is_first():
        run = Run.open(folder)
        task = run.task()
    try:
        _fit(run, task, device, arguments)
    except KeyboardInterrupt:
        words = ["graphut", "train", arguments.task, "--out", folder, "--resume"]
        words += import_words(vars(arguments).get("import", ()))
        words += [f"--{x}={y}" for x in ("results", "device") if (y := getattr(arguments, x))]
        words += ["--tensorboard"] * arguments.tensorboard
        print(f"stopped; to continue: {shlex.join(words)}")
        raise
    learner = run.learner(run.model().to(device))
    evaluate_set(run, learner, "test", task.test, {}, {}, arguments.results)
    for answer in learner.answers(task.test[:_SHOWN]):
        print(f"\n{answer}")
    return 0


def _create(arguments: Namespace) -> tuple[Run, Task]:
    """Read the data of a new run, and write the run."""
    name, folder = arguments.task, arguments.out
    options: Mapping[str, Any] = {**preset_of(name, arguments.preset), **vars(arguments)}
    task = build(TASKS[name], options)
    training = build(TrainingConfig, options)
    # Read all data now, so that a fault in a file is reported before training.
    parts = {"validation": task.validation, "test": task.test}
    if task.paths:
        parts["training"] = task.train(training.seed, 0)
    for part, examples in parts.items():
        if not examples:
            raise ValueError(f"the task {name} has no {part} examples")
    learner = learner_of(task)
    config = build(task.config_kind, options, **task.model_sizes)
    torch.manual_seed(training.seed)
    model = learner.model_kind(config)
    return Run.create(folder, task, training, model, options.get("import", ()), name), task


def _fit(run: Run, task: Task, device: torch.device, arguments: Namespace) -> None:
    """Train to the end of the run."""
    model = run.model().to(device)
    trainer = Trainer(model, task, run.training, run.folder)
    if arguments.resume:
        trainer.resume()
    if arguments.tensorboard and is_first():
        trainer.on_epoch = tensorboard_log(run.folder, trainer.progress.update)
    if task.description:
        print(fill(task.description, 80))
    weights = sum(parameter.numel() for parameter in model.parameters())
    print(
        f"{weights:,} weights on {model.device}; {pluralize(trainer.updates, 'update')} per "
        f"epoch, at most {pluralize(run.training.epochs, 'epoch')}",
        flush=True,
    )
    trainer.fit()
