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
    texts = arguments.texts if path is None else [*_lines(learner, path, arguments.skip_unknown)]
    readable = [text for text in texts if text is not None]
    # The records tell which tokens the limit on the number of steps has stopped.
    answers = learner.generate(readable, arguments.search, get_attention=not arguments.plain)
    for text in texts:
        result = None if text is None else next(answers)
        if arguments.plain:
            print("" if result is None else result.text)
        else:
            print(f"\n{result or ''}")
    return 0


def _lines(learner: AnyLearner, path: str, skip: bool) -> Iterator[str | None]:
    """Yield the lines of a file, and `None` for an empty line.

    Raise a `ValueError` with the line number if the model cannot read a line. With `skip`, print
    this error and yield `None` instead.
    """
    content, name = (sys.stdin.read(), "<stdin>") if path == "-" else (read_text(path), path)
    for number, line in enumerate(lines_of(content), start=1):
        text = line if line.strip() else None
        try:
            if text is not None:
                learner.parse(text)
        except ValueError as error:
            if not skip:
                raise ValueError(f"{name}:{number}: {error}") from None
            print(f"graphut: skipped {name}:{number}: {error}", file=sys.stderr)
            text = None
        yield text
