"""`graphut train`: train a model on a task."""

import shlex
import signal
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from textwrap import fill
from types import FrameType
from typing import Any

import torch

from graphut.experiments.cli.device import pick_device
from graphut.experiments.cli.eval import ResultFiles, evaluate_set
from graphut.experiments.cli.options import build
from graphut.experiments.messages import import_words, pluralize
from graphut.experiments.tasks import TASKS, Task, preset_of
from graphut.experiments.training import Run, Trainer, TrainingConfig, learner_of
from graphut.experiments.training.epoch_log import tensorboard_log
from graphut.experiments.training.processes import barrier, is_first, num_processes, process_group
from graphut.experiments.training.run_files import (
    CHECKPOINT,
    RUN,
    FolderLock,
    check_is_new,
    model_digest,
)

_SHOWN = 3  # test examples that are answered after training

SIGNALS = (signal.SIGINT, signal.SIGTERM)
Opener = Callable[[FolderLock], Run]


@process_group()
def main(arguments: Namespace) -> int:
    """Train a model; then evaluate the best model on the test set and print a few answers.

    Processes that `torchrun` has started share the work.
    """
    name, folder, resume, preset = arguments.task, arguments.out, arguments.resume, arguments.preset
    target, options = pick_device(arguments.device), vars(arguments)
    if preset is not None or not resume:
        options = {**preset_of(name, preset), **options}
    prepare = _prepare_resumed if resume else _prepare_new
    task, open_run = (prepare if is_first() else _follow)(folder, name, options)
    deadline = time.monotonic() + 60 * arguments.minutes
    # From the first file in the folder on, a signal ends the run so that it can be resumed.
    with recorded_signals() as signals, FolderLock(folder) as lock:
        run = open_run(lock)
        if is_first():
            barrier()  # the others wait in `_follow`
        if resume and not run.has_begun:
            print("no training was saved: the run starts at the first update")
        resume = run.has_begun

        def should_stop() -> bool:
            return bool(signals) or time.monotonic() >= deadline

        is_complete = _fit(run, task, target, lock, arguments, should_stop, resume=resume)
    if is_complete and not signals:
        learner = run.learner(run.model().to(target))
        digest, files = model_digest(folder), ResultFiles(arguments.results, arguments.curves)
        evaluate_set(run, learner, "test", task.test, {}, digest=digest, files=files)
        for answer in learner.answers(task.test[:_SHOWN]):
            print(f"\n{answer}")
    elif not is_complete:
        words = ["graphut", "train", name, "--out", folder, "--resume"]
        words += import_words(options.get("import", ()))
        print(f"stopped; to continue: {shlex.join(words)}")
    return 128 + signals[0] if signals else 0


def _prepare_new(folder: str, name: str, options: Mapping[str, Any]) -> tuple[Task, Opener]:
    """Read the data of a new run; return its task, and a function that writes and returns it."""
    check_is_new(folder)
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
    config = build(task.config_kind, options, **learner.sizes(task))
    task.check_config(config)
    torch.manual_seed(training.seed)
    model = learner.model_kind(config)
    imports = options.get("import", ())
    return task, lambda lock: Run.create(folder, task, training, model, lock, imports, name)


def _prepare_resumed(folder: str, name: str, options: Mapping[str, Any]) -> tuple[Task, Opener]:
    """Check the data of a run; return its task, and a function that updates it."""
    run: Run = options["run"]
    config = run.model().config
    torch.manual_seed(run.training.seed)
    run.learner_kind.model_kind(config)  # leaves the random state with which training begins
    return run.task(), lambda lock: run.write()


def _follow(folder: str, name: str, options: Mapping[str, Any]) -> tuple[Task, Opener]:
    """Wait until process 0 has written the run; return its task, and a function that returns it."""
    barrier()
    run = Run.open(folder)
    return run.task(), lambda lock: run


def _fit(
    run: Run,
    task: Task,
    device: torch.device,
    lock: FolderLock,
    options: Namespace,
    should_stop: Callable[[], bool],
    *,
    resume: bool,
) -> bool:
    """Train, and return whether training is complete; after an early error, remove a new run."""
    trainer = None
    try:
        model = run.model().to(device)
        trainer = Trainer(model, task, run.training, run.folder, print, lock, options.accumulate)
        if resume:
            trainer.resume()
        if options.tensorboard and is_first():
            trainer.on_epoch = tensorboard_log(run.folder, trainer.progress.update)
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


@contextmanager
def recorded_signals() -> Iterator[list[int]]:
    """Context manager that records Ctrl-C and SIGTERM in a list, instead of ending the process.

    A second signal has its usual effect. In a process group, later signals are only recorded, too,
    because `torchrun` forwards signals that the terminal has already sent; `torchrun` kills a
    process that does not end in time.
    """
    received: list[int] = []

    def record(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if num_processes() == 1:
            restore()

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    handlers = {number: signal.signal(number, record) for number in SIGNALS}
    try:
        yield received
    finally:
        restore()
