"""`graphut generate`."""

from __future__ import annotations

from collections.abc import Sequence

from graphut.experiments.cli.options import Parser
from graphut.experiments.cli.run_options import (
    add_generation_options,
    generation_options,
    pick_device,
    run_parser,
)
from graphut.experiments.training import Run


def main(argv: Sequence[str]) -> int:
    """Print the answers of a model to texts, with the number of steps of each token."""
    options = vars(_parser().parse_args(argv))
    folder, texts, device, plain = (
        options.pop(key) for key in ("folder", "texts", "device", "plain")
    )
    run = Run.open(folder)
    chosen = generation_options(run, options)
    model = run.trained_model(pick_device(device))
    for answer in run.learner.generate(model, run.vocabularies, texts, chosen):
        print(answer.text if plain else f"\n{answer}")
    return 0


def _parser() -> Parser:
    parser = run_parser(
        "generate",
        "Answer texts, and print the number of steps of each token. The form of a text depends on "
        'the task: symbols separated by spaces, "q d x a", or without spaces if each symbol is a '
        'character, "qdxa"; a sentence; a story with a question; or the beginning of a text.',
    )
    option = parser.add_argument
    option("texts", nargs="+", metavar="TEXT", help="what to answer or to continue")
    option("--plain", action="store_true", help="print the answers without the steps")
    add_generation_options(parser)
    return parser
