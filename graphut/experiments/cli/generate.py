"""`graphut generate`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from graphut.experiments.cli.options import Parser
from graphut.experiments.cli.run_options import (
    add_generation_options,
    generation_options,
    pick_device,
    run_parser,
)
from graphut.experiments.tasks.files import lines_of, read_text
from graphut.experiments.training import Run


def main(argv: Sequence[str]) -> int:
    """Print the answers of a model to texts, with the number of steps of each token."""
    options = vars(_parser().parse_args(argv))
    folder, device, plain = (options.pop(key) for key in ("folder", "device", "plain"))
    run = Run.open(folder)
    texts = _texts(options.pop("texts"), options.pop("input"))
    chosen = generation_options(run, options)
    model = run.trained_model(pick_device(device))
    asked = [text for text in texts if text is not None]
    answers = run.learner.generate(model, run.vocabularies, asked, chosen)
    for text in texts:
        found = None if text is None else next(answers)
        answer = "" if found is None else found.text if plain else str(found)
        print(answer if plain else f"\n{answer}")
    return 0


def _texts(given: list[str], path: str | None) -> list[str | None]:
    """Return the texts of the command line or of a file; an empty line is `None`."""
    if bool(given) == (path is not None):
        raise ValueError("give either texts, or a file of them with --input")
    if path is None:
        return [*given]
    lines = lines_of(sys.stdin.read() if path == "-" else read_text(path))
    return [line if line.strip() else None for line in lines]


def _parser() -> Parser:
    parser = run_parser(
        "generate",
        "Answer texts, and print the number of steps of each token. The form of a text depends on "
        'the task: symbols separated by spaces, "q d x a", or without spaces if each symbol is a '
        'character, "qdxa"; a sentence; a story with a question; or the beginning of a text.',
    )
    option = parser.add_argument
    option("texts", nargs="*", metavar="TEXT", help="what to answer or to continue")
    option("--input", metavar="FILE", help="a file with one text per line; - is standard input")
    option("--plain", action="store_true", help="print the answers without the steps")
    add_generation_options(parser)
    return parser
