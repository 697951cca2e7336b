"""`graphut generate`: answer or continue texts with the model of a run."""

import sys
from argparse import Namespace
from collections.abc import Iterator

from graphut.experiments.cli.options import pick_device
from graphut.experiments.tasks.files import lines_of, read_text
from graphut.experiments.training.learners import AnyLearner


def main(arguments: Namespace) -> int:
    """Print the outputs of a model for texts, with the number of steps of each token."""
    run, path = arguments.run, arguments.input
    learner = run.learner(run.trained_model(pick_device(arguments.device)))
    texts = arguments.texts if path is None else [*_lines(learner, path)]
    # The records tell which tokens the limit on the number of steps has stopped.
    for answer in learner.generate(texts, arguments.search, get_attention=not arguments.plain):
        print(answer.text if arguments.plain else f"\n{answer}")
        note = answer.note.rpartition("\n")[2]  # with subwords, their text comes first
        if arguments.plain and note.startswith("cut off"):
            print(f"graphut: {answer.text[:60]!r} was {note}", file=sys.stderr)
    return 0


def _lines(learner: AnyLearner, path: str) -> Iterator[str]:
    """Yield the lines of a file; raise `ValueError` if the model cannot read one."""
    content, name = (sys.stdin.read(), "<stdin>") if path == "-" else (read_text(path), path)
    for number, line in enumerate(lines_of(content), start=1):
        try:
            learner.parse(line)
        except ValueError as error:
            raise ValueError(f"{name}:{number}: {error}") from None
        yield line
