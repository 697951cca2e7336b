"""`graphut generate`."""

from __future__ import annotations

import sys
from argparse import Namespace

from graphut.experiments.cli.device import pick_device
from graphut.experiments.cli.options import build, check_options, field_names
from graphut.experiments.tasks import Vocabulary
from graphut.experiments.tasks.files import lines_of, read_text
from graphut.experiments.training import Run


def main(arguments: Namespace) -> int:
    """Print the answers of a model to texts, and under each token the number of steps it took."""
    options = vars(arguments)
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
        answer, with_steps = ("", "") if text is None else next(answers)
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
