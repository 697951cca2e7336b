"""`graphut train`: train a model on a task."""

from __future__ import annotations

import math
import shlex
import time
from argparse import SUPPRESS, HelpFormatter, RawDescriptionHelpFormatter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import fill
from typing import Any

import torch

from graphut._files import is_path
from graphut.experiments.cli.eval import ResultFiles, add_results, evaluate_set
from graphut.experiments.cli.interruption import Interruption
from graphut.experiments.cli.options import Parser, add_device, add_options, build
from graphut.experiments.cli.run_options import add_task_options, pick_device
from graphut.experiments.tasks import TASK_PRESETS, TASKS, Task, preset_of
from graphut.experiments.tasks.presets import MEANINGS, SMALL
from graphut.experiments.training import Run, Trainer, TrainingConfig, is_run, learner_of
from graphut.experiments.training.epoch_log import EPOCH_LOGS, EpochLog
from graphut.experiments.training.processes import barrier, is_first, process_group
from graphut.experiments.training.run import RUN
from graphut.experiments.training.run_files import CHECKPOINT, FolderLock, model_digest
from graphut.experiments.wording import meaning_of, pluralize
from graphut.models.config import ModelConfig

_SHOWN = 3  # test examples that are answered after training
_RUN_OPTIONS = (
    "task", "out", "resume", "device", "minutes", "preset", "accumulate", "log_to", "results",
    "curves",
)  # fmt: skip

Opener = Callable[[FolderLock], Run]


def main(argv: Sequence[str]) -> int:
    """Train a model; then evaluate the best model on the test set and print a few answers.

    Processes that `torchrun` has started share the work.
    """
    with process_group():
        return _train(argv)


def _train(argv: Sequence[str]) -> int:
    options = read_options(argv)
    name, folder, resume, device, minutes, preset, accumulate, log_to, *paths = (
        options.pop(key) for key in _RUN_OPTIONS
    )
    files = ResultFiles(*paths)
    files.check()
    if accumulate < 1:
        raise ValueError(f"--accumulate must be at least 1, got {accumulate}")
    if not minutes > 0:
        raise ValueError(f"--minutes must be positive, got {minutes}")
    if not folder or Path(folder).is_file():
        raise ValueError(f"--out must be a folder, new or existing; got {folder!r}")
    target = pick_device(device)
    log = EpochLog(log_to, folder) if log_to else None
    if preset is not None or not resume:
        options = {**preset_of(name, preset), **options}
    prepare = _prepare_resumed if resume else _prepare_new
    task, open_run = (prepare if is_first() else _follow)(folder, name, options)
    deadline = time.monotonic() + 60 * minutes
    # From the first file in the folder on, a signal ends the run so that it can be resumed.
    with Interruption() as interruption, FolderLock(folder) as lock:
        run = open_run(lock)
        if is_first():
            barrier()  # the others wait in `_follow`
        if resume and not run.has_begun:
            print("no training was saved: the run starts at the first update")
        resume = run.has_begun

        def should_stop() -> bool:
            return interruption.signal is not None or time.monotonic() >= deadline

        done = _fit(run, task, target, lock, accumulate, log, should_stop, resume=resume)
    if done and interruption.signal is None:
        best = run.model().to(target)
        digest = model_digest(folder) if is_first() else None
        files = files if is_first() else ResultFiles()
        evaluate_set(run, best, "test", task.test, {}, digest=digest, files=files)
        for answer in run.learner.answers(best, task, task.test[:_SHOWN]):
            print(f"\n{answer}")
    elif not done:
        print(f"stopped; to continue: graphut train {name} --out {shlex.quote(folder)} --resume")
    return 0 if interruption.signal is None else 128 + interruption.signal


def _prepare_new(folder: str, name: str, options: Mapping[str, Any]) -> tuple[Task, Opener]:
    """Read the data of a new run; return the task, and a function that creates the run."""
    if is_run(folder) or Path(folder, CHECKPOINT).exists():
        raise FileExistsError(f"there is a run in {folder}: --resume it, or use another --out")
    task = build(TASKS[name], options)
    training = build(TrainingConfig, options)
    # Read all data now, so that a fault in a file is reported before training.
    parts = {"validation": task.validation, "test": task.test}
    if task.own_files:
        parts["training"] = task.train(training.seed, 0)
    for part, examples in parts.items():
        if not examples:
            raise ValueError(f"the task {name} has no {part} examples")
    learner = learner_of(task)
    config = build(learner.config_kind, options, **learner.sizes(task))
    task.check_lengths(config)
    torch.manual_seed(training.seed)
    model = learner.model_kind(config)
    return task, lambda lock: Run.create(folder, task, training, model, lock)


def _prepare_resumed(folder: str, name: str, options: Mapping[str, Any]) -> tuple[Task, Opener]:
    """Check the options and data of a run; return the task, and a function that opens the run."""
    run = Run.open(folder)
    if options.get("epochs", 0) > run.training.epochs:  # train longer
        run = replace(run, training=replace(run.training, epochs=options["epochs"]))
    config = run.model().config
    _check_same(folder, "task", run.task_name, name)
    task = build(TASKS[name], {**run.task_options, **options})
    before = {**run.task_options, **vars(run.training), **vars(config)}
    for option, value in {**options, **asdict(task)}.items():
        if not (is_path(before[option]) and is_path(value)):  # data may be moved
            _check_same(folder, option, before[option], value)
    run = replace(run, task_options=asdict(task))
    torch.manual_seed(run.training.seed)
    run.learner.model_kind(config)  # leaves the random state with which training begins
    return run.task(), lambda lock: run.write()


def _follow(folder: str, name: str, options: Mapping[str, Any]) -> tuple[Task, Opener]:
    """Wait until process 0 has prepared the run; return the task, and a function for the run."""
    barrier()
    run = Run.open(folder)
    return run.task(), lambda lock: run


def _fit(
    run: Run,
    task: Task,
    device: torch.device,
    lock: FolderLock,
    accumulate: int,
    log: EpochLog | None,
    should_stop: Callable[[], bool],
    *,
    resume: bool,
) -> bool:
    """Train, and return whether the run has ended; remove a new run that fails at once."""
    trainer = None
    try:
        model = run.model().to(device)
        trainer = Trainer(model, task, run.training, run.folder, print, lock, accumulate, log)
        if resume:
            trainer.resume()
        if task.description:
            print(fill(task.description, 80))
        weights = sum(parameter.numel() for parameter in model.parameters())
        print(
            f"{weights:,} weights on {model.device}; {pluralize(trainer.updates, 'update')} per "
            f"epoch, at most {pluralize(run.training.epochs, 'epoch')}",
            flush=True,
        )
        return trainer.fit(should_stop)
    except (BlockingIOError, FileExistsError):
        raise  # the run in the folder belongs to another process
    except BaseException as error:
        # A run that diverged would do so again; but what was saved before is never removed.
        diverged = isinstance(error, FloatingPointError)
        updates = trainer and (trainer.saved_update if diverged else trainer.progress.update)
        if not resume and is_first() and not updates:
            for name in (RUN, CHECKPOINT):  # the folder is then free for another attempt
                (run.folder / name).unlink(missing_ok=True)
        raise


def _check_same(folder: str, what: str, before: object, given: object) -> None:
    if before != given:
        raise ValueError(
            f"the run in {folder} began with {what} {before} and cannot be resumed with {given}: "
            "begin another run, with another --out"
        )


def read_options(argv: Sequence[str]) -> dict[str, Any]:
    """Return the options of a command line, including the name of the task.

    Raise `ValueError` if `--rule` is given for a model without halting.
    """
    task = next((word for word in argv if word in TASKS), None)
    options: dict[str, Any] = vars(_parser(task).parse_args(argv))
    chosen = {**preset_of(options["task"], options["preset"]), **options}
    if "rule" in options and not chosen.get("adaptive", True):
        raise ValueError(
            f"--rule {options['rule']} has no effect: without halting all nodes take all steps; "
            "leave out --rule, or the preset or --no-adaptive that disables halting"
        )
    return options


def _parser(task: str | None) -> Parser:
    """Return a parser with help for the options of a task, or for the options of all tasks."""
    tasks = [f"  {name:22}{meaning_of(kind)}" for name, kind in TASKS.items()]
    parser = Parser(
        prog="graphut train" + (f" {task}" if task else ""),
        usage=f"graphut train {task or 'TASK'} --out FOLDER [options]",
        description=meaning_of(TASKS[task]) if task else "Train a Universal Transformer on a task.",
        epilog=None
        if task
        else "\n".join(["tasks:", *tasks, "", "graphut train TASK --help lists its options."]),
        formatter_class=HelpFormatter if task else RawDescriptionHelpFormatter,
    )
    help = SUPPRESS if task else "see below"
    parser.add_argument("task", choices=TASKS, metavar="TASK", help=help)
    presets = TASK_PRESETS.get(task or "", {})
    _add_run_options(parser, presets)
    if task:
        add_task_options(parser, task)
    else:
        add_options(parser.add_argument_group("training"), TrainingConfig)
        add_options(parser.add_argument_group("model"), ModelConfig)
    return parser


def _add_run_options(parser: Parser, presets: Collection[str]) -> None:
    option = parser.add_argument
    option("--out", required=True, metavar="FOLDER", help="folder of the run")
    help = "continue the run in the folder, with the options that it began with; larger --epochs "
    help += "train it longer"
    option("--resume", action="store_true", help=help)
    help = "stop after this many minutes; --resume continues the run (default: no limit)"
    option("--minutes", type=float, default=math.inf, metavar="X", help=help)
    help = "compute each batch in this many parts, one after the other, to save memory; the "
    help += "gradients are the same (default: 1)"
    option("--accumulate", type=int, default=1, metavar="K", help=help)
    help = "also log the metrics of each epoch in TensorBoard (in the folder tensorboard of the "
    help += "run) or in Weights & Biases"
    option("--log-to", choices=EPOCH_LOGS, help=help)
    named = ", ".join(f"{name} ({MEANINGS.get(name, 'see below')})" for name in presets)
    help = f"default options for the task: {named} (default: {SMALL})" if named else SUPPRESS
    option("--preset", metavar="NAME", help=help)
    add_results(parser)
    add_device(parser)
