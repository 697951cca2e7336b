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
    is_blank = [path is not None and not text.strip() for text in texts]  # lines of a file
    prompts = [text for text, blank in zip(texts, is_blank, strict=True) if not blank]
    # The records tell which tokens the limit on the number of steps has stopped.
    answers = learner.generate(prompts, arguments.search, get_attention=not arguments.plain)
    for blank in is_blank:
        result = None if blank else next(answers)
        if arguments.plain:
            print("" if result is None else result.text)
        else:
            print(f"\n{result or ''}")
    return 0


def _lines(learner: AnyLearner, path: str) -> Iterator[str]:
    """Yield the lines of a file; raise `ValueError` if the model cannot read one."""
    content, name = (sys.stdin.read(), "<stdin>") if path == "-" else (read_text(path), path)
    for number, line in enumerate(lines_of(content), start=1):
        try:
            if line.strip():
                learner.parse(line)
        except ValueError as error:
            raise ValueError(f"{name}:{number}: {error}") from None
        yield line
