"""`graphut train`."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from graphut._files import is_path
from graphut.experiments.cli.device import pick_device
from graphut.experiments.cli.eval import ResultFiles, evaluate_set
from graphut.experiments.cli.interruption import Interruption
from graphut.experiments.cli.options import build, check_options
from graphut.experiments.cli.train_options import read_options
from graphut.experiments.records.setup import option_fields
from graphut.experiments.tasks import TASKS, Task, preset_of
from graphut.experiments.training import Run, Trainer, TrainingConfig, is_run, learner_of
from graphut.experiments.training.folder_lock import FolderLock
from graphut.experiments.training.gradient import bfloat16_gain, multiplies_bfloat16
from graphut.experiments.training.learner import AnyLearner
from graphut.experiments.training.processes import barrier, is_first, process_group
from graphut.experiments.training.run import RUN
from graphut.experiments.training.run_files import CHECKPOINT, model_digest
from graphut.experiments.wording import counted
from graphut.models.base import AdaptiveModel
from graphut.models.config import ModelConfig, upgrade_fields
from graphut.models.pretrained import load_weights, read_config

_WORTH_IT = 1.25  # bfloat16 is taken where it is more than this many times as fast
_SHOWN = 3  # test examples that are answered after the training
MAY_GROW = ("epochs", "patience")  # in a run that is resumed
_RUN_OPTIONS = (
    "task", "out", "resume", "device", "minutes", "preset", "init_from", "accumulate", "results",
    "curves",
)  # fmt: skip

Opener = Callable[[FolderLock | None], Run]


def main(argv: Sequence[str]) -> int:
    """Train, and at the end evaluate the best model on the test set and show a few answers.

    Processes that `torchrun` has started do it together.
    """
    with process_group():
        return _train(argv)


def _train(argv: Sequence[str]) -> int:
    arguments = read_options(argv)
    name, folder, resume, device, minutes, preset, init_from, accumulate, *paths = (
        arguments.pop(key) for key in _RUN_OPTIONS
    )
    files = ResultFiles(*paths)
    files.check()
    if accumulate < 1:
        raise ValueError(f"--accumulate must be at least 1, got {accumulate}")
    if not minutes > 0:
        raise ValueError(f"--minutes must be positive, got {minutes}")
    if not folder or Path(folder).is_file():
        raise ValueError(f"--out must be a folder, there already or not yet; got {folder!r}")
    target = pick_device(device)
    check_options(arguments, option_fields(name), f"the task {name}")
    if preset is not None or not resume:
        arguments = {**preset_of(name, preset), **arguments}
    if resume and init_from is not None:
        raise ValueError("--init-from begins a run: leave out --resume, and give another --out")
    begin = _resumed if resume else partial(_begun, init_from, target)
    task, open_run = (begin if is_first() else _followed)(folder, name, arguments)
    deadline = time.monotonic() + 60 * minutes
    # From the first file in the folder on, a signal ends the run so that it can be resumed.
    with (
        Interruption() as interruption,
        FolderLock(folder) if is_first() else nullcontext() as lock,
    ):
        run = open_run(lock)
        if is_first():
            barrier()  # the others wait in `_followed`
        if resume and not run.has_begun:
            print("nothing of its training was saved: it begins with the first update")
        resume = run.has_begun

        def should_stop() -> bool:
            return interruption.signal is not None or time.monotonic() >= deadline

        over = _fit(run, task, target, lock, accumulate, should_stop, resume=resume)
    if over and interruption.signal is None:
        best = run.model().to(target)
        digest = model_digest(folder) if is_first() else None
        files = files if is_first() else ResultFiles()
        evaluate_set(run, best, "test", task.test, {}, digest=digest, files=files)
        for answer in run.learner.answers(best, task, task.test[:_SHOWN]):
            print(f"\n{answer}")
    elif not over:
        print(f"stopped; to go on: graphut train {name} --out {shlex.quote(folder)} --resume")
    return 0 if interruption.signal is None else 128 + interruption.signal


def _begun(
    init_from: str | None, device: torch.device, folder: str, name: str, options: Mapping[str, Any]
) -> tuple[Task, Opener]:
    """Return the task, with its data read, and a function that makes the run's folder."""
    if is_run(folder) or Path(folder, CHECKPOINT).exists():
        raise FileExistsError(f"there is a run in {folder}: --resume it, or give another --out")
    task = build(TASKS[name], options)
    for part in ("validation", "test"):  # a fault in a file is to be known before the training
        if not getattr(task, part):
            raise ValueError(f"the task {name} has no {part} examples")
    training = build(TrainingConfig, options)
    if task.own_files and not task.train(training.seed, 0):
        raise ValueError(f"the task {name} has no training examples")
    learner = learner_of(task)
    config = build(learner.config_kind, options, **learner.sizes(task))
    task.check_lengths(config)
    model = _first_model(learner, config, training.seed)
    history = [] if init_from is None else [_take_weights(init_from, model, task)]
    if device.type == "cpu" and training.precision == "auto" and multiplies_bfloat16():
        batch = task.train(training.seed, 0)[: training.batch_size]
        gain = bfloat16_gain(model, learner, batch, training)
        taken: Literal["bfloat16", "float32"] = "bfloat16" if gain > _WORTH_IT else "float32"
        print(f"precision {taken}: bfloat16 is {gain:.2f} times as fast as float32")
        # It is written into the folder, so that the run stays with it when it is resumed or made
        # again, on whichever processor.
        training = replace(training, precision=taken)
    return task, lambda lock: Run.create(folder, task, training, model, lock, history)


def _followed(folder: str, name: str, options: Mapping[str, Any]) -> tuple[Task, Opener]:
    """Return the task and the run that the first process has opened, in another process."""
    barrier()
    run = Run.open(folder)
    return run.task(), lambda lock: run


def _take_weights(folder: str, model: AdaptiveModel, task: Task) -> dict[str, Any]:
    """Give a model the weights in a folder, in float32; return what to remember of that."""
    if is_run(folder) and dict(task.vocabularies) != Run.open(folder).vocabularies:
        raise ValueError(f"the symbols of the run in {folder} are not those of the task")
    saved = read_config(folder, type(model).__name__)
    found = upgrade_fields(saved.values)
    others = [f"{key} {value}" for key, value in found.items() if value != vars(model.config)[key]]
    if others:
        print(f"the model in {folder} had {', '.join(others)}")
    load_weights(folder, saved, model)
    model.float()
    return {"init_from": str(Path(folder).resolve()), "model": model_digest(folder)}


def _fit(
    run: Run,
    task: Task,
    device: torch.device,
    lock: FolderLock | None,
    accumulate: int,
    should_stop: Callable[[], bool],
    *,
    resume: bool,
) -> bool:
    """Train; a run that fails before it has learned anything is removed."""
    trainer = None
    try:
        model = run.model().to(device)
        trainer = Trainer(model, task, run.training, run.folder, print, lock, accumulate)
        if resume:
            trainer.resume()
        weights = sum(parameter.numel() for parameter in trainer.model.parameters())
        print(
            f"{weights:,} weights on {trainer.model.device}; "
            f"{counted(trainer.updates, 'update')} in an epoch, "
            f"{counted(run.training.epochs, 'epoch')} at most",
            flush=True,
        )
        return trainer.fit(should_stop)
    except (BlockingIOError, FileExistsError):
        raise  # the run in the folder belongs to another process
    except BaseException as error:
        if not resume and is_first() and (trainer is None or _learned_nothing(trainer, error)):
            # The folder is then free for a better attempt.
            for name in (RUN, CHECKPOINT):
                (run.folder / name).unlink(missing_ok=True)
        raise


def _learned_nothing(trainer: Trainer, error: BaseException) -> bool:
    # A run that diverged would do so again; but what was saved before is never removed.
    diverged = isinstance(error, FloatingPointError) and trainer.saved_update == 0
    return trainer.progress.update == 0 or diverged


def _resumed(folder: str, name: str, options: Mapping[str, Any]) -> tuple[Task, Opener]:
    """Return the task, with its data read and checked, and a function that returns its run."""
    run = Run.open(folder)
    config = run.model().config
    _check_same(folder, "task", run.task_name, name)
    task = build(TASKS[name], {**run.task_options, **options})
    begun = {**run.task_options, **vars(run.training), **vars(config)}
    longer = {key: options[key] for key in MAY_GROW if options.get(key, 0) > begun[key]}
    for option, value in {**options, **asdict(task)}.items():
        # Data may be moved, and a run be trained longer.
        if not (is_path(begun[option]) and is_path(value)) and option not in longer:
            _check_same(folder, option, begun[option], value)
    events = [{"longer": longer, "before": asdict(run.training)}] if longer else []
    training, history = replace(run.training, **longer), [*run.history, *events]
    run = replace(run, task_options=asdict(task), training=training, history=history)
    _first_model(run.learner, config, run.training.seed)  # draws as when it was made
    return run.task(), lambda lock: run.write()


def _first_model(learner: AnyLearner, config: ModelConfig, seed: int) -> AdaptiveModel:
    """Return the model with which a run begins, and leave the random state of its beginning."""
    torch.manual_seed(seed)
    return learner.model_kind(config)


def _check_same(folder: str, what: str, begun: object, given: object) -> None:
    if begun != given:
        raise ValueError(
            f"the run in {folder} began with {what} {begun}: it cannot be resumed with {given}; "
            "begin another one, with another --out"
        )
