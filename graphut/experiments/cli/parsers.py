"""The argument parsers of the commands on runs. Parsing does not import torch."""

from __future__ import annotations

from argparse import SUPPRESS
from collections.abc import Callable, Mapping

from graphut.experiments.cli.options import Parser, add_device, add_options, field_names
from graphut.experiments.generation_options import EVALUATION_OPTIONS, GenerationOptions


def add_results(parser: Parser) -> None:
    """Add the options that name the CSV files to which evaluations are appended."""
    help = "append a row for each test set to this CSV file: task, preset, options, seed, metrics, "
    help += "cost, versions, processor and commit; several processes may append to one file"
    parser.add_argument("--results", metavar="FILE", help=help)
    help = "append the metrics by length, by difficulty and by group to this CSV file, for charts"
    parser.add_argument("--curves", metavar="FILE", help=help)


def _for_run(prog: str, description: str) -> Parser:
    parser = Parser(prog=f"graphut {prog}", description=description)
    parser.add_argument("folder", metavar="FOLDER", help="the folder of a run")
    return parser


def _eval() -> Parser:
    parser = _for_run(
        "eval",
        "Evaluate the best model of a run: let it answer the test examples and compare its answers "
        "with the correct ones. The metrics of each test set, as a whole and by length, difficulty "
        "or group, are also written into the folder: evaluation-NAME.json.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--set", metavar="NAME", help="one test set (default: all of the task)")
    help = "evaluate on this file of pairs, stories, graphs or (char-lm) text in place of test sets"
    which.add_argument("--data", metavar="FILE", help=help)
    help = "maximum number of steps of a node (default: as in training)"
    parser.add_argument("--max-steps", type=int, default=SUPPRESS, metavar="N", help=help)
    help = "halting rule, such as threshold:threshold=0.8 (default: that of the run)"
    parser.add_argument("--evaluation-rule", default=SUPPRESS, metavar="RULE", help=help)
    add_results(parser)
    add_device(parser)
    _add_generation(parser, skip={*field_names(GenerationOptions)} - {*EVALUATION_OPTIONS})
    return parser


def _generate() -> Parser:
    parser = _for_run(
        "generate",
        "Answer texts, and show the number of steps of each token. What a text is depends on the "
        'task: symbols separated by spaces, "q d x a", or without spaces if each symbol is one '
        'character, "qdxa"; a sentence; a story and its question; the beginning of a text.',
    )
    option = parser.add_argument
    option("texts", nargs="*", metavar="TEXT", help="a text to answer or to continue")
    option("--input", metavar="FILE", help="a file with one text per line; - is standard input")
    option("--plain", action="store_true", help="print only the answers")
    help = "read each character except white space as a symbol, and join the symbols of the answer"
    option("--characters", action="store_true", help=help)
    add_device(parser)
    _add_generation(parser)
    return parser


def _show() -> Parser:
    parser = _for_run(
        "show",
        "Draw how a model answers a text: the steps of each token with their halting "
        "probabilities, and the attention of each step and head.",
    )
    option = parser.add_argument
    option("text", metavar="TEXT", help="the text to answer, as for graphut generate")
    help = "the picture: .png, .pdf or .svg; or .gif, an animation of the active nodes in each step"
    option("--out", metavar="FILE", required=True, help=help)
    help = "what to draw: ponder, attention or all (default: all)"
    option("--draw", choices=("ponder", "attention", "all"), help=help)
    add_device(parser)
    _add_generation(parser)
    return parser


def _add_generation(parser: Parser, skip: set[str] | None = None) -> None:
    group = parser.add_argument_group("if the model generates text")
    add_options(group, GenerationOptions, skip or ())


def _plot() -> Parser:
    parser = Parser(
        prog="graphut plot",
        description="Draw loss, accuracy and steps by epoch of training, for one or several runs.",
    )
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="the folder of a run")
    help = "the picture: .png, .pdf or .svg"
    parser.add_argument("--out", metavar="FILE", required=True, help=help)
    return parser


def _report() -> Parser:
    parser = _for_run(
        "report",
        "Write a report of a run into one HTML file: options, training curves, metrics by length "
        "and difficulty, examples with their steps and attention, depth, operations, and the "
        "commands that repeat the run. The run must have been evaluated, either at the end of "
        "training or by graphut eval.",
    )
    parser.add_argument("--out", metavar="FILE", required=True, help="the report: .html")
    add_device(parser)
    return parser


def _info() -> Parser:
    return _for_run("info", "Print the contents of the folder of a run.")


def _share() -> Parser:
    parser = _for_run(
        "share",
        "Write the model card of a run into its folder, README.md: task, results, options, and how "
        "to make it again. With a repository, upload the card and the run, except its checkpoint, "
        "to the Hugging Face hub. The file run.json contains the paths of your data.",
    )
    option = parser.add_argument
    option("repository", nargs="?", metavar="REPO", help="upload to this repository: name/repo")
    help = "make a new repository private"
    option("--private", action="store_true", default=None, help=help)
    option("--license", metavar="NAME", help="of the model, such as mit")
    return parser


PARSERS: Mapping[str, Callable[[], Parser]] = {
    "eval": _eval,
    "generate": _generate,
    "show": _show,
    "plot": _plot,
    "report": _report,
    "info": _info,
    "share": _share,
}
"""The functions that make the parser of each command."""
