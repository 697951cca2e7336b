"""The options of `graphut train`."""

from __future__ import annotations

import math
from argparse import SUPPRESS, HelpFormatter, RawDescriptionHelpFormatter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import yaml

from graphut.experiments.cli.device import add_device
from graphut.experiments.cli.eval import add_results
from graphut.experiments.cli.options import Parser, add_options
from graphut.experiments.tasks import TASK_PRESETS, TASKS, preset_of
from graphut.experiments.tasks.files import read_text
from graphut.experiments.tasks.presets import MEANINGS, SMALL
from graphut.experiments.training import TrainingConfig, learner_of
from graphut.experiments.training.learners import LEARNERS
from graphut.experiments.wording import did_you_mean, meaning_of
from graphut.models.config import ModelConfig, upgrade_fields


def read_options(argv: Sequence[str]) -> dict[str, Any]:
    """Return the options of a command line, the task's name among them, wherever it stands.

    Those of the files that `--config` names stand before all others. Raise `ValueError` if an
    option would have no effect.
    """
    task = argv[0] if argv and argv[0] in TASKS else _parser(None).parse_known_args(argv)[0].task
    parser = _parser(task)
    given: dict[str, Any] = vars(parser.parse_args(argv))
    files, options = given["config"], given
    if files:
        words = [word for path in files for word in _words(path, task)]
        if given["resume"]:  # the run has the weights that it began with
            words = [word for word in words if not word.startswith("--init-from=")]
        options = vars(parser.parse_args([*words, *argv]))
    del options["config"]
    _check_effects(task, given, options, files)
    return options


def _check_effects(
    task: str, given: Mapping[str, Any], options: Mapping[str, Any], files: Sequence[str]
) -> None:
    """Raise `ValueError` if an option of the command line, one of those `given`, has no effect."""
    preset = preset_of(task, options["preset"])
    changed = [name for name, value in preset.items() if options.get(name, value) != value]
    if files and given["preset"] and changed and preset.keys() <= options.keys():
        raise ValueError(
            f"--preset {given['preset']} has no effect: {' and '.join(files)} sets each of its "
            f"options, {changed[0]} to {options[changed[0]]}; give the options that are to differ"
        )
    if "rule" in given and not {**preset, **options}.get("adaptive", True):
        raise ValueError(
            f"--rule {given['rule']} has no effect: without halting all nodes take all steps; "
            "leave out --rule, or the preset or --no-adaptive that ends halting"
        )


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Refuses an option that comes twice, of which YAML would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value]
        for name in names:
            if names.count(name) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{name!r} comes twice")
        return super().construct_mapping(node, deep)


def _words(path: str, task: str) -> list[str]:
    """Return the options in a YAML file as the words of a command line."""
    try:
        options = yaml.load(read_text(path), _Loader) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is no YAML file: {' '.join(str(error).split())}") from None
    if not isinstance(options, dict) or any(isinstance(x, (dict, list)) for x in options.values()):
        raise ValueError(f"{path} must have an option in each line, such as 'epochs: 3'")
    if (other := options.pop("task", task)) != task:
        raise ValueError(f"{path} has options of the task {other}, not of {task}")
    options = upgrade_fields(options)
    parser = _parser(task, place=f"{path}: ")
    known = {option.dest: option for option in parser.shown() if option.dest != "config"}
    words = []
    for name, value in options.items():
        if name not in known:
            raise ValueError(f"{path}: {name!r} is no option{did_you_mean(str(name), known)}")
        positive, *negative = known[name].option_strings
        if known[name].nargs == 0:  # a switch
            if not isinstance(value, bool):
                raise ValueError(f"{path}: {name} must be true or false, got {value!r}")
            words += [positive] if value else negative
        elif value is not None:
            words.append(f"{positive}={value}")
    parser.parse_args([task, "--out=.", *words])  # its errors name the file
    return words


def _parser(task: str | None, place: str = "") -> Parser:
    """Return a parser with help for the options of a task, or for those that all tasks have."""
    parser = Parser(
        prog="graphut train" + (f" {task}" if task else ""),
        usage=f"graphut train {task or 'TASK'} --out FOLDER [options]",
        description=meaning_of(TASKS[task]) if task else "Train a Universal Transformer on a task.",
        epilog=None if task else _tasks(),
        formatter_class=HelpFormatter if task else RawDescriptionHelpFormatter,
        place=place,
    )
    help = SUPPRESS if task else "what to learn: see below"
    parser.add_argument("task", choices=TASKS, metavar="TASK", help=help)
    presets = TASK_PRESETS.get(task or "", {})
    _add_run_options(parser, presets)
    from_task = learner_of(TASKS[task]).from_task if task else ()
    for title, kind in _shown_kinds(task).items():
        add_options(parser.add_argument_group(title), kind, from_task, presets=presets)
    # Of other tasks too, so that a wrong one can be told from an unknown one.
    for kind in (*TASKS.values(), *(learner.config_kind for learner in LEARNERS.values())):
        add_options(parser, kind, from_task, hidden=True)
    return parser


def _add_run_options(parser: Parser, presets: Collection[str]) -> None:
    option = parser.add_argument
    option("--out", required=True, metavar="FOLDER", help="where to keep the run")
    help = "a YAML file of options, such as the options.yaml of a run, which repeats it; options "
    help += "of the command line override those of the file, and a later file overrides an earlier"
    option("--config", action="append", default=[], metavar="FILE", help=help)
    help = "go on with the run that is in the folder; with more --epochs or --patience than it "
    help += "began with also after its end; the learning rate is then that of the longer run"
    option("--resume", action="store_true", help=help)
    help = "begin with the weights of the model in another folder, such as that of a run; the "
    help += "options and the symbols must be those that make such a model"
    option("--init-from", metavar="FOLDER", help=help)
    help = "train no longer than this many minutes, and then be ready to be resumed "
    help += "(default: no limit)"
    option("--minutes", type=float, default=math.inf, metavar="X", help=help)
    help = "compute each batch in this many parts, one after the other: it takes less memory, and "
    help += "the gradients are the same (default: 1)"
    option("--accumulate", type=int, default=1, metavar="K", help=help)
    named = ", ".join(f"{name} ({MEANINGS.get(name, 'see below')})" for name in presets)
    made = f"defaults made for the task: {named} (default: {SMALL})"
    option("--preset", metavar="NAME", help=made if named else SUPPRESS)
    add_results(parser)
    add_device(parser)


def _shown_kinds(task: str | None) -> dict[str, type[Any]]:
    """Return the dataclasses whose fields are in the help, each with a title."""
    if task is None:
        return {"training": TrainingConfig, "model": ModelConfig}
    model = learner_of(TASKS[task]).config_kind
    return {"task": TASKS[task], "training": TrainingConfig, "model": model}


def _tasks() -> str:
    lines = [f"  {name:22}{meaning_of(kind)}" for name, kind in TASKS.items()]
    return "\n".join(["tasks:", *lines, "", "graphut train TASK --help says more."])
