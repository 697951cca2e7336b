"""The options of all commands but `train`, which are parsed before torch is imported.

Each command has a dataclass of options, whose docstring is the description in its help.
"""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Literal

from graphut.experiments.cli.options import (
    OnDevice,
    WithTables,
    add_options,
    argument,
    build,
    command_parser,
    field_names,
    switch,
    word,
)
from graphut.experiments.messages import flag
from graphut.experiments.tasks import GraphTask
from graphut.experiments.training import Run
from graphut.experiments.training.config import EVALUATION_OPTIONS, GenerationOptions
from graphut.experiments.training.run import SavedModel, open_model
from graphut.models.checked_config import CheckedConfig, option
from graphut.plotting.figure import check_picture_path, new_figure
from graphut.topology import parse
from graphut.topology.measures import check_tokens


@dataclass(frozen=True, kw_only=True)
class Settings(CheckedConfig):
    """The settings of a model that an evaluation can change."""

    max_steps: int | None = option(None, "largest number of steps of a node", least=1)
    evaluation_rule: str | None = option(None, "when a node halts, such as threshold:threshold=0.8")


@dataclass(frozen=True, kw_only=True)
class Eval(WithTables):
    """Evaluate the best model of a run on its test sets.

    The metrics of each test set, in total and by length, difficulty or group, are also written to
    evaluation-NAME.json in the folder; with options such as --max-steps, to another file with these
    options in its name.
    """

    folder: str = word("the folder of a run", "FOLDER")
    set: str | None = argument(None, "one test set (default: all of the task)", "NAME")
    data: str | None = argument(None, "your own examples, instead of the test sets", "FILE")

    def _check_values(self) -> None:
        super()._check_values()
        if self.set is not None and self.data is not None:
            raise ValueError("give either --set or --data")


@dataclass(frozen=True, kw_only=True)
class Predict(OnDevice):
    """Write the predictions of a model for your own graphs, a row for each node or graph.

    Labels are not needed.
    """

    folder: str = word("the folder of a run or of a saved model", "FOLDER")
    data: str = argument(MISSING, "file or folder of graphs, as for graphut train graphs", "PATH")
    out: str = argument(MISSING, ".csv", "FILE")

    def _check_values(self) -> None:
        _check_file(self.out, ".csv")


@dataclass(frozen=True, kw_only=True)
class Generate(OnDevice):
    """Answer texts, and print the number of steps of each token.

    The form of a text depends on the task: symbols separated by spaces, "q d x a", or without
    spaces if each symbol is a character, "qdxa"; a sentence; a story with a question; or the
    beginning of a text.
    """

    folder: str = word("the folder of a run or of a saved model", "FOLDER")
    texts: tuple[str, ...] = word("what to answer or to continue", "TEXT", ())
    input: str | None = argument(None, "a file of texts, one per line; - is standard input", "FILE")
    plain: bool = switch("print the answers without the steps")

    def _check_values(self) -> None:
        if bool(self.texts) == (self.input is not None):
            raise ValueError("give either texts, or a file of them with --input")


@dataclass(frozen=True, kw_only=True)
class Show(OnDevice):
    """Draw the steps of each token, or the attention of each step and head, for one text.

    For a task on graphs, draw the active nodes of each step, for one test graph. A .gif animates
    the active tokens of each step (of the decoder, if there is one).
    """

    folder: str = word("the folder of a run or of a saved model", "FOLDER")
    text: str = word("a text as for graphut generate, or the number of a test graph", "TEXT")
    out: str = argument(MISSING, "the picture: .png, .pdf, .svg or .gif", "FILE")
    draw: Literal["ponder", "attention"] | None = option(None, "what (default: ponder)")

    def _check_values(self) -> None:
        check_picture_path(self.out, "gif")


@dataclass(frozen=True, kw_only=True)
class Report(OnDevice):
    """Write a report of an evaluated run into one HTML file.

    It has the options, training curves, results by length and difficulty, mistakes, the first
    answers with their steps, and the command that repeats the run.
    """

    folder: str = word("the folder of a run", "FOLDER")
    out: str = argument(MISSING, "the report: .html", "FILE")

    def _check_values(self) -> None:
        _check_file(self.out, ".html")
        new_figure(1, 1)  # raises ImportError without matplotlib


@dataclass(frozen=True, kw_only=True)
class Topology(CheckedConfig):
    """Print edges, in-degrees and distances between tokens; draw mask and arcs.

    Specs are joined by | (or) and & (and). An unknown one, such as "?", lists the names. "graphut
    topology compare" trains models with several topologies.
    """

    spec: str = word('such as "window:3|global:0"', "SPEC")
    nodes: int = argument(24, "number of tokens", "N", least=1)
    out: str | None = argument(None, "draw into this file: .png, .pdf or .svg", "FILE")

    def _check_values(self) -> None:
        parse(self.spec)
        check_tokens(self.nodes)
        if self.out is not None:
            check_picture_path(self.out)


_COMMANDS: dict[str, type[CheckedConfig]] = {
    kind.__name__.lower(): kind for kind in (Eval, Predict, Generate, Show, Report, Topology)
}


def read_options(command: str, argv: Sequence[str]) -> Namespace:
    """Parse and check the options of a command, such as `eval` or `generate`.

    In the result, `run` is the run that it reads. `search` are the generation options (None if the
    task has none), and `changed` the settings of the model that differ.
    """
    kind = _COMMANDS[command]
    parser = command_parser(f"graphut {command}", kind)
    if command == "eval":
        add_options(parser, Settings)
    if command in ("eval", "generate", "show"):
        skip = {*field_names(GenerationOptions)}.difference(EVALUATION_OPTIONS)
        group = parser.add_argument_group("options of models that generate text")
        add_options(group, GenerationOptions, skip if command == "eval" else ["generator"])
    options: Namespace = parser.parse_args(argv)
    vars(options).update(vars(build(kind, vars(options))))
    if "folder" in options:
        # These commands also read a folder of `save_pretrained`; the others need a run.
        reads_models = command in ("generate", "predict", "show")
        options.run = open_model(options.folder) if reads_models else Run.open(options.folder)
        _check_run(command, options, options.run)
    return options


def _check_file(path: str, suffix: str) -> None:
    """Raise an error if the name of a file to write has another suffix, or no folder."""
    if Path(path).suffix.lower() != suffix:
        raise ValueError(f"--out must end with {suffix}; got {path!r}")
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: make its folder, or name another")


def _check_run(command: str, options: Namespace, run: SavedModel) -> None:
    """Raise `ValueError` if the files, the task or the model of a run do not suit the options."""
    values, kind, model = vars(options), run.kind, f"the model in {run.folder}"
    is_graph = issubclass(kind, GraphTask)
    if command == "predict" and not is_graph:
        raise ValueError(f"{model} is not for graphs: graphut generate answers texts")
    if command == "generate" and is_graph:
        raise ValueError(f"{model} is for graphs: graphut predict FOLDER --data FILE reads them")
    if command == "show" and options.draw and (is_graph or options.out.lower().endswith(".gif")):
        raise ValueError("--draw is for pictures of texts; graphs and .gif show the active nodes")
    if command == "show" and is_graph and not isinstance(run, Run):
        raise ValueError(f"{run.folder} has no test graphs to show: name a run of graphut train")
    searches = kind.searches if command == "eval" else kind.generates
    for each in field_names(GenerationOptions):
        if each in options and not searches:
            raise ValueError(f"{flag(each)} is no option of {model}")
    search = build(GenerationOptions, values)
    options.search = search if kind.generates else None
    options.changed = {name: values[name] for name in field_names(Settings) if name in options}
    replace(run.config, **options.changed)  # checks the values
