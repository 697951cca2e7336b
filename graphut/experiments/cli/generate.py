"""`graphut generate`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from graphut.experiments.cli.device import add_device, pick_device
from graphut.experiments.cli.options import Parser, add_options, build, check_options, field_names
from graphut.experiments.tasks import Vocabulary
from graphut.experiments.tasks.files import lines_of, read_text
from graphut.experiments.training import Run
from graphut.experiments.training.learners import LEARNERS


def main(argv: Sequence[str]) -> int:
    """Print the answers of a model to texts, and under each token the number of steps it took."""
    options = vars(_parser().parse_args(argv))
    folder, device, plain, characters = (
        options.pop(key) for key in ("folder", "device", "plain", "characters")
    )
    run = Run.open(folder)
    texts = _texts(options.pop("texts"), options.pop("input"))
    learner = run.learner
    check_options(options, field_names(learner.generation_kind), f"the task {run.task_name}")
    asked = build(learner.generation_kind, options)
    if characters:
        texts = [text and _spelled(text, run) for text in texts]
    model = run.trained_model(pick_device(device))
    lines = [text for text in texts if text is not None]
    answers = learner.generate(model, run.vocabularies, lines, asked)
    for text in texts:
        # An empty line of a file has an empty answer: the lines of both stay side by side.
        found = None if text is None else next(answers)
        answer, with_steps = (found.text, str(found)) if found else ("", "")
        if characters and text:
            answer = "".join(answer.split())
            with_steps += f"\ntext    {answer}"
        print(answer if plain else f"\n{with_steps}")
    return 0


def _texts(given: list[str], path: str | None) -> list[str | None]:
    """Return the texts of the command line, or of a file: `None` for each empty line."""
    if bool(given) == (path is not None):
        raise ValueError("give either texts, or a file of them with --input")
    if path is None:
        return [*given]
    lines = lines_of(sys.stdin.read() if path == "-" else read_text(path))
    return [line if line.strip() else None for line in lines]


def _spelled(text: str, run: Run) -> str:
    """Return the characters of a text, without its white space, as symbols."""
    if type(run.vocabularies.get("source")) is not Vocabulary:
        raise ValueError(f"--characters is of no use: the task {run.task_name} reads texts as such")
    return " ".join("".join(text.split()))


def _parser() -> Parser:
    parser = Parser(
        prog="graphut generate",
        description="Answer texts, and show the steps. A text is what the task is about: a "
        'sequence of symbols between spaces, "q d x a", which may be left out where each symbol '
        'is a character, "qdxa"; or a sentence, a story with its question, the beginning of a '
        "text.",
    )
    option = parser.add_argument
    option("folder", metavar="FOLDER", help="the folder of a run")
    option("texts", nargs="*", metavar="TEXT", help="what to answer, or to go on with")
    option("--input", metavar="FILE", help="a text in each line; - is standard input")
    option("--plain", action="store_true", help="print the answers alone")
    help = "take each character but white space as a symbol, and join those of the answer"
    option("--characters", action="store_true", help=help)
    add_device(parser)
    group = parser.add_argument_group("where the model writes")
    for learner in LEARNERS.values():
        add_options(group, learner.generation_kind)
    return parser
