"""The options of `graphut train`, which are parsed before torch is imported."""

import os
from argparse import SUPPRESS, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from graphut._files import is_path
from graphut.experiments.cli.options import (
    Parser,
    WithTables,
    add_options,
    argument,
    build,
    switch,
    word_parser,
)
from graphut.experiments.messages import meaning_of
from graphut.experiments.tasks import TASKS, Vocabulary, preset_of
from graphut.experiments.tasks.presets import MEANINGS, SMALL
from graphut.experiments.training import Run, TrainingConfig
from graphut.experiments.training.run_files import check_is_new
from graphut.models.checked_config import suggest

_EACH_TASK = (
    "TASK is also the path of a Python file that defines a task, such as those in examples/tasks.\n"
    "graphut train TASK --help lists its options."
)
_MANY = 2**31
_SIZES = ("source_vocab", "target_vocab", "vocab_size", "num_feats", "classes")
"""Sizes that a model takes from the examples; it accepts most options if they are large."""


@dataclass(frozen=True, kw_only=True)
class Train(WithTables):
    """Train a Universal Transformer on a task."""

    out: str = argument(MISSING, "folder of the run", "FOLDER")
    resume: bool = switch("continue the run in the folder after its last complete epoch")
    tensorboard: bool = switch("log the metrics of each epoch to the folder tensorboard of the run")

    def _check_values(self) -> None:
        super()._check_values()
        if not self.out or Path(self.out).is_file():
            raise ValueError(f"--out must be a folder, new or existing; got {self.out!r}")
        if self.tensorboard and find_spec("tensorboard") is None:
            raise ImportError("--tensorboard needs it: pip install tensorboard")


def read_options(command: str, argv: Sequence[str]) -> Namespace:
    """Parse and check the options of `train`."""
    if not argv or argv[0] not in TASKS:  # ends with the list of tasks, or an error
        words = {name: meaning_of(kind) for name, kind in TASKS.items()}
        usage = "graphut train TASK --out FOLDER [options]"
        word_parser("graphut train", "task", words, _EACH_TASK, usage=usage).parse_args(argv[:1])
    options: Namespace = _train_parser(argv[0]).parse_args(argv)
    vars(options).update(vars(build(Train, vars(options))))
    values = {**preset_of(options.task, options.preset), **vars(options)}
    if options.resume:
        changes = vars(options) if options.preset is None else values
        options.run = _resumable_run(options.out, options.task, changes)
    elif "RANK" not in os.environ:  # of torchrun: another may have begun
        check_is_new(options.out)
        _check_new(options.task, values)
    return options


def _check_new(task: str, options: Mapping[str, Any]) -> None:
    """Raise an error if options of a task, its training or its model are wrong."""
    kind = TASKS[task]
    build(kind, options).check_choice(build(TrainingConfig, options).choose_by)
    sizes: dict[str, Any] = {name: _MANY for name in _SIZES if name in kind.from_data}
    if isinstance(answer_at := getattr(kind, "answer_at", None), str):  # declared, not read
        sizes["answer_at"] = answer_at
    if isinstance(kinds := getattr(kind, "node_kinds", None), Vocabulary):
        sizes |= {"num_kinds": len(kinds.symbols), "num_feats": 0}
    build(kind.config_kind, options, **sizes)


def _resumable_run(folder: str, task: str, options: Mapping[str, Any]) -> Run:
    """Return a run with the new number of epochs and the new paths of its data in `options`.

    Raise `ValueError` if the task or another option differs from the run in the folder.
    """
    run = Run.open(folder)
    if options.get("epochs", 0) > run.training.epochs:  # train longer
        run = replace(run, training=replace(run.training, epochs=options["epochs"]))
    saved = {**run.task_options, **vars(run.training), **vars(run.config)}
    _check_same(folder, "task", run.task_name, task)
    task_options = asdict(build(TASKS[task], {**run.task_options, **options}))
    for option, value in {**options, **task_options}.items():
        moved = is_path(saved.get(option)) and is_path(value)
        if option in saved and not moved:
            _check_same(folder, option, saved[option], value)
    return replace(run, task_options=task_options)


def _check_same(folder: str, what: str, saved: object, value: object) -> None:
    if saved != value:
        raise ValueError(
            f"the run in {folder} began with {what} {saved} and cannot be resumed with {value}: "
            "begin another run, with another --out"
        )


def _train_parser(task: str) -> Parser:
    """Return a parser for the options of a task, of its training and of its model."""
    usage = f"graphut train {task} --out FOLDER [options]"
    task_kind, presets = TASKS[task], TASKS[task].presets
    description = meaning_of(task_kind)
    parser = Parser(prog=f"graphut train {task}", usage=usage, description=description)
    parser.add_argument("task", metavar="TASK", help=SUPPRESS)
    add_options(parser, Train)
    meanings = ", ".join(f"{name} ({MEANINGS.get(name, 'see below')})" for name in presets)
    help = f"default options for the task: {meanings} (default: {SMALL})" if meanings else SUPPRESS
    parser.add_argument("--preset", metavar="NAME", help=help)
    kinds = {"task": task_kind, "training": TrainingConfig, "model": task_kind.config_kind}
    names = {each.name for kind in kinds.values() for each in fields(kind)}
    for preset, options in presets.items():
        for name in options.keys() - names:
            meant = suggest(name, names)
            raise ValueError(
                f"the preset {preset!r} of {task} has no option {name!r} to set{meant}"
            )
    for title, kind in kinds.items():
        add_options(parser.add_argument_group(title), kind, task_kind.from_data, presets=presets)
    return parser
