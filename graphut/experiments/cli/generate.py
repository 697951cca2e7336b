"""`graphut generate`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from graphut.experiments.cli.best_model import best_model
from graphut.experiments.cli.device import add_device, pick_device
from graphut.experiments.cli.options import build, check_options, field_names
from graphut.experiments.cli.parser import Parser
from graphut.experiments.cli.search_options import add_search_options
from graphut.experiments.tasks.files import lines_of, read_text
from graphut.experiments.training import Run


def main(argv: Sequence[str]) -> int:
    """Print what a model says of texts, and under each token the number of steps it took."""
    options = vars(_parser().parse_args(argv))
    folder, device, plain = (options.pop(key) for key in ("folder", "device", "plain"))
    run = Run.open(folder)
    texts = _texts(options.pop("texts"), options.pop("input"))
    learner = run.learner
    check_options(options, field_names(learner.generation_kind), f"the task {run.task_name}")
    asked = build(learner.generation_kind, options)
    model = best_model(run, pick_device(device))
    for said in learner.generate(model, run.vocabularies, texts, asked):
        print(said.answer if plain else f"\n{said.shown}")
    return 0


def _texts(given: list[str], path: str | None) -> list[str]:
    """Those of the command line, or of a file."""
    if bool(given) == (path is not None):
        raise ValueError("give either texts, or a file of them with --input")
    if path is None:
        return given
    texts = lines_of(sys.stdin.read() if path == "-" else read_text(path))
    if "" in texts:
        raise ValueError(f"line {texts.index('') + 1} of {path} is empty: leave it out")
    return texts


def _parser() -> Parser:
    parser = Parser(
        prog="graphut generate",
        description="Answer texts, and show the steps. A text is what the task is about: a "
        'sequence of symbols between spaces, "q d x a", which may be left out where each symbol '
        'is a character, "qdxa"; or a sentence, a story with its question, the beginning of a '
        "text.",
    )
    parser.add_argument("folder", metavar="FOLDER", help="the folder of a run")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="what to answer, or to go on with")
    parser.add_argument("--input", metavar="FILE", help="a text in each line; - is standard input")
    parser.add_argument("--plain", action="store_true", help="print the answers alone")
    add_device(parser)
    add_search_options(parser, lambda learner: field_names(learner.generation_kind))
    return parser
