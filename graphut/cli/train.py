"""`graphut train`."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from graphut.cli.answers import show_answers
from graphut.cli.device import add_device, pick_device
from graphut.cli.interruption import Interruption
from graphut.cli.options import add_options, build, field_names, flag
from graphut.cli.parser import Parser
from graphut.cli.presets import PRESETS
from graphut.models import UniversalTransformer, UniversalTransformerConfig
from graphut.tasks import TASKS
from graphut.training import Run, Trainer, TrainingConfig, evaluate, is_run

_FROM_TASK = ("source_vocab", "target_vocab")
_SHOWN = 3


def main(argv: Sequence[str]) -> int:
    """Train, evaluate the best model on the test set, and show a few answers."""
    arguments = vars(_parser().parse_args(argv))
    name, folder, resume, device, minutes = (
        arguments.pop(key) for key in ("task", "out", "resume", "device", "minutes")
    )
    target = pick_device(device)
    _check_options(name, arguments)
    run = _resumed(folder, name, arguments) if resume else _begun(folder, name, arguments)
    trainer = Trainer(run.model().to(target), run.task(), run.training, run.folder)
    if resume:
        trainer.resume()
    deadline = time.monotonic() + 60 * minutes
    with Interruption() as interruption:
        over = trainer.fit(lambda: interruption.happened or time.monotonic() >= deadline)
    if not over:
        print(f"stopped; to go on: graphut train {name} --out {shlex.quote(folder)} --resume")
    if interruption.signal is not None:
        return 128 + interruption.signal
    _judge(run, target)
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="graphut train",
        usage="graphut train TASK --out FOLDER [options]",
        description="Train a Universal Transformer on a task.",
    )
    names = ", ".join(TASKS)
    parser.add_argument("task", choices=TASKS, metavar="TASK", help=f"what to learn: {names}")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where to keep the run")
    parser.add_argument(
        "--resume", action="store_true", help="go on with the run that is in the folder"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        metavar="X",
        help="stop after so many minutes, ready to be resumed (default: no limit)",
    )
    add_device(parser)
    add_options(parser.add_argument_group("task"), TASKS)
    add_options(parser.add_argument_group("training"), {"": TrainingConfig})
    model = parser.add_argument_group("model")
    add_options(model, {"": UniversalTransformerConfig}, skip=_FROM_TASK)
    return parser


def _check_options(name: str, options: Mapping[str, Any]) -> None:
    kinds = (TASKS[name], TrainingConfig, UniversalTransformerConfig)
    known = {field for kind in kinds for field in field_names(kind)}
    for option in options:
        if option not in known:
            raise ValueError(f"{flag(option)} is no option of the task {name}")


def _begun(folder: str, name: str, options: Mapping[str, Any]) -> Run:
    if is_run(folder):
        raise FileExistsError(f"there is a run in {folder}: --resume it, or give another --out")
    task = build(TASKS[name], options)
    options = {**PRESETS.get(name, {}), **options}
    training = build(TrainingConfig, options)
    config = build(
        UniversalTransformerConfig,
        options,
        source_vocab=len(task.source_vocabulary),
        target_vocab=len(task.target_vocabulary),
    )
    torch.manual_seed(training.seed)
    return Run.create(folder, task, training, UniversalTransformer(config))


def _resumed(folder: str, name: str, options: Mapping[str, Any]) -> Run:
    run = Run.open(folder)
    _check_same(folder, "task", run.task_name, name)
    task = build(TASKS[name], {**run.task_options, **options})
    begun = {**run.task_options, **vars(run.training), **vars(run.model().config)}
    for option, value in {**options, **asdict(task)}.items():
        _check_same(folder, option, begun[option], value)
    return run


def _check_same(folder: str, what: str, begun: object, given: object) -> None:
    if begun != given:
        raise ValueError(
            f"the run in {folder} began with {what} {begun}: it cannot be resumed with {given}"
        )


def _judge(run: Run, device: torch.device) -> None:
    task, best = run.task(), run.model().to(device)
    result = evaluate(best, task.test, max_length=task.max_target_length)
    print(f"test, {len(task.test)} sequences: {result}")
    sources = [source for source, _ in task.test[:_SHOWN]]
    show_answers(run, best, sources, max_length=task.max_target_length + 1)  # 1 for <eos>
