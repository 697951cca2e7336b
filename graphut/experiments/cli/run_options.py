"""The options of commands that read a run, which are parsed before torch is imported."""

from argparse import SUPPRESS, Namespace
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from graphut.experiments.cli.options import (
    Parser,
    add_device,
    add_options,
    add_results,
    build,
    count,
    field_names,
)
from graphut.experiments.messages import flag
from graphut.experiments.tasks import TASKS, GraphTask
from graphut.experiments.training import Run
from graphut.experiments.training.config import EVALUATION_OPTIONS, GenerationOptions
from graphut.models.config import Restarts
from graphut.plotting.figure import check_picture_path, new_figure

_Part = Callable[[Parser], object]  # adds an argument, or several, to the parser of a command


def read_options(command: str, argv: Sequence[str]) -> Namespace:
    """Parse and check the options of a command that reads a run, such as `eval` or `generate`.

    In the result, `runs` are the runs, and `run` is a single one. `search` are the generation
    options (None if the task has none), and `changed` the settings of the model that differ.
    """
    description, parts = _COMMANDS[command]
    parser = Parser(prog=f"graphut {command}", description=description)
    for add in parts:
        add(parser)
    options: Namespace = parser.parse_args(argv)
    folders = [options.folder] if "folder" in options else vars(options).get("folders", [])
    options.runs = [Run.open(folder) for folder in dict.fromkeys(folders)]
    if "out" in options:
        _check_out(command, options.out)
    if "folder" in options:
        [options.run] = options.runs
        _check_run(command, options, options.run)
    if command == "generate":
        if bool(options.texts) == (options.input is not None):
            raise ValueError("give either texts, or a file of them with --input")
        if options.skip_unknown and options.input is None:
            raise ValueError("--skip-unknown skips lines of a file: name it with --input")
    if command == "show" and options.draw == "all" and Path(options.out).suffix.lower() == ".gif":
        raise ValueError("a .gif shows one thing: --draw ponder, the active tokens, or attention")
    return options


def _check_out(command: str, out: str) -> None:
    """Raise an error if a file of this name cannot be written, or a package is missing for it."""
    if command in ("plot", "show"):
        check_picture_path(out, *["gif"] * (command == "show"))
    elif command in _SUFFIXES:
        suffix, suffixes = Path(out).suffix.lower(), _SUFFIXES[command]
        if suffix not in suffixes:
            raise ValueError(f"--out must end with {', '.join(suffixes)}; got {out!r}")
        if not Path(out).absolute().parent.is_dir():
            raise FileNotFoundError(f"cannot write {out}: make its folder, or name another")
        if command == "report":
            new_figure(1, 1)  # raises ImportError without matplotlib
        if suffix == ".parquet" and not (find_spec("pandas") and find_spec("pyarrow")):
            advice = "pip install pandas pyarrow, or write .csv"
            raise ImportError(f"{out} needs pandas and pyarrow: {advice}")


def _check_run(command: str, options: Namespace, run: Run) -> None:
    """Raise `ValueError` if the files, the task or the model of a run do not suit the options."""
    values, name, kind = vars(options), run.task_name, TASKS[run.task_name]
    is_graph = issubclass(kind, GraphTask)
    if command == "predict" and not is_graph:
        raise ValueError(f"{name} is not a task on graphs: graphut generate answers texts")
    if command == "generate" and is_graph:
        raise ValueError(
            f"{name} is a task on graphs: graphut predict FOLDER --data FILE reads them"
        )
    if command == "show" and is_graph and options.draw:
        raise ValueError("--draw is for texts; of a graph, the active nodes are drawn")
    for option in field_names(GenerationOptions):
        if option in options and not (kind.searches if command == "eval" else kind.generates):
            raise ValueError(f"{flag(option)} is no option of the task {name}")
    options.restarting = {name: values[name] for name in field_names(Restarts) if name in options}
    if options.restarting and not is_graph:
        raise ValueError(f"{flag(next(iter(options.restarting)))} is no option of the task {name}")
    build(Restarts, values)  # checks the values
    search = build(GenerationOptions, values)
    options.search = search if kind.generates else None
    options.changed = {name: values[name] for name in EVALUATION_SETTINGS if name in options}
    replace(run.config, **options.changed)  # checks the values


def _argument(*names: str, **settings: Any) -> _Part:
    return lambda parser: parser.add_argument(*names, **settings)


def _add_generation(parser: Parser, only: Collection[str] | None = None) -> None:
    """Add the options of models that generate text, or only the options named in `only`."""
    group = parser.add_argument_group("options of models that generate text")
    skip = [] if only is None else {*field_names(GenerationOptions)}.difference(only)
    add_options(group, GenerationOptions, ["generator", *skip])


def _add_restarts(parser: Parser) -> None:
    group = parser.add_argument_group("options of models whose nodes wake (event_driven)")
    add_options(group, Restarts)


def _add_examples(parser: Parser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--set", metavar="NAME", help="one test set (default: all of the task)")
    help = "your own pairs, stories, graphs or (char-lm) text, instead of the test sets"
    which.add_argument("--data", metavar="FILE", help=help)


_FOLDER = _argument("folder", metavar="FOLDER", help="the folder of a run")
_RUN = (_FOLDER, add_device)
EVALUATION_SETTINGS = ("max_steps", "evaluation_rule")  # options of `graphut eval`
_SUFFIXES = {"predict": (".csv", ".json", ".parquet"), "report": (".html", ".htm")}

# fmt: off
_COMMANDS: dict[str, tuple[str, tuple[_Part, ...]]] = {
    "eval": (
        "Evaluate the best model of a run: compare its answers to the test examples with the "
        "correct ones. The metrics of each test set, in total and by length, difficulty or group, "
        "are also written to evaluation-NAME.json in the folder; with options such as --max-steps, "
        "to another file with these options in its name.",
        (*_RUN, _add_examples,
         _argument("--max-steps", type=int, default=SUPPRESS, metavar="N",
                   help="largest number of steps of a node (default: as in training)"),
         _argument("--evaluation-rule", default=SUPPRESS, metavar="RULE",
                   help="when a node halts, such as threshold:threshold=0.8 (default: the rule of "
                   "the run)"),
         add_results, partial(_add_generation, only=EVALUATION_OPTIONS), _add_restarts),
    ),
    "partition": (
        "Divide a graph with labels of nodes among processes, each of which loads its part only.",
        (_argument("data", metavar="DATA",
                   help="file or folder of one graph, in the formats of graphut train graphs"),
         _argument("--parts", type=count, required=True, metavar="N",
                   help="number of parts, and processes"),
         _argument("--out", required=True, metavar="FOLDER",
                   help="new or empty folder for the parts"),
         _argument("--method", choices=("metis", "random", "contiguous"), default="metis",
                   help="cut few edges (metis), at random, or into runs of nodes (default: metis)"),
         _argument("--target", choices=("class", "labels", "values"), default="class",
                   help="what a label is, as in graphut train graphs (default: class)")),
    ),
    "predict": (
        "Write the predictions of a model for your own graphs, one row for each node, graph or "
        "edge. Labels are not needed.",
        (*_RUN,
         _argument("--data", required=True, metavar="PATH",
                   help="file or folder of graphs, in the formats of graphut train graphs"),
         _argument("--out", required=True, metavar="FILE",
                   help="file to write: .csv, .json, or .parquet (with pandas and pyarrow)"),
         _add_restarts),
    ),
    "generate": (
        "Answer texts, and print the number of steps of each token. The form of a text depends on "
        'the task: symbols separated by spaces, "q d x a", or without spaces if each symbol is a '
        'character, "qdxa"; a sentence; a story with a question; or the beginning of a text.',
        (*_RUN,
         _argument("texts", nargs="*", metavar="TEXT", help="what to answer or to continue"),
         _argument("--input", metavar="FILE",
                   help="a file with one text per line; - is standard input"),
         _argument("--skip-unknown", action="store_true",
                   help="answer an input line with an unknown symbol by an empty line, instead of "
                   "stopping"),
         _argument("--plain", action="store_true", help="print the answers without the steps"),
         _add_generation),
    ),
    "show": (
        "Draw the steps of each token with the halting probabilities, or the attention of each "
        "step and head, for one text. For a task on graphs, draw the active nodes of each step, "
        "for one test graph.",
        (*_RUN,
         _argument("text", metavar="TEXT",
                   help="the input, as for graphut generate; for a task on graphs, the number of a "
                   "test graph, counted from 1"),
         _argument("--out", metavar="FILE", required=True,
                   help="the picture: .png, .pdf or .svg; or a .gif, which animates the active "
                   "tokens, or the attention, of each step (of the decoder, if there is one)"),
         _argument("--draw", choices=("ponder", "attention", "all"),
                   help="what to draw (default: ponder, the steps of each token)"),
         _add_generation),
    ),
    "plot": (
        "Draw loss, accuracy and steps by epoch, of one run or of several to compare.",
        (_argument("folders", nargs="+", metavar="FOLDER", help="the folder of a run"),
         _argument("--out", metavar="FILE", required=True,
                   help="the picture: .png, .pdf or .svg")),
    ),
    "report": (
        "Write a report of a run into one HTML file: options, results by length and difficulty, "
        "examples with their steps and attention, steps by position, operations, and the commands "
        "that repeat the run. The run must have been evaluated, by graphut train at its end or by "
        "graphut eval.",
        (*_RUN, _argument("--out", metavar="FILE", required=True, help="the report: .html")),
    ),
    "info": ("Describe the run in a folder.", (_FOLDER,)),
}
# fmt: on
