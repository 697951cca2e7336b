"""`graphut generate`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from graphut.experiments.cli.device import add_device, pick_device
from graphut.experiments.cli.options import Parser, add_options, build, check_options, field_names
from graphut.experiments.tasks.files import lines_of, read_text
from graphut.experiments.training import Run
from graphut.experiments.training.learners import LEARNERS


def main(argv: Sequence[str]) -> int:
    """Print the answers of a model to texts, and under each token the number of steps it took."""
    options = vars(_parser().parse_args(argv))
    folder, device, plain = (options.pop(key) for key in ("folder", "device", "plain"))
    run = Run.open(folder)
    texts = _texts(options.pop("texts"), options.pop("input"))
    learner = run.learner
    check_options(options, field_names(learner.generation_kind), f"the task {run.task_name}")
    asked = build(learner.generation_kind, options)
    model = run.trained_model(pick_device(device))
    for generated in learner.generate(model, run.vocabularies, texts, asked):
        print(generated.text if plain else f"\n{generated.with_steps}")
    return 0


def _texts(given: list[str], path: str | None) -> list[str]:
    """Return the texts of the command line, or of a file."""
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
    group = parser.add_argument_group("where the model writes")
    for learner in LEARNERS.values():
        add_options(group, learner.generation_kind)
    return parser
