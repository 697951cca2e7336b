"""`graphut generate`: answer or continue texts with the model of a run."""

from __future__ import annotations

import sys
from argparse import Namespace

from graphut.experiments.cli.device import pick_device
from graphut.experiments.cli.run_options import generation_options
from graphut.experiments.tasks.files import lines_of, read_text
from graphut.experiments.training import Run


def main(arguments: Namespace) -> int:
    """Print the outputs of a model for texts, with the number of steps of each token."""
    options = vars(arguments)
    folder, words, path, skip, device, plain = (
        options.pop(key) for key in ("folder", "texts", "input", "skip_unknown", "device", "plain")
    )
    run = Run.open(folder)
    search = generation_options(run, options)
    texts = words if path is None else _lines(run, path, skip)
    model = run.trained_model(pick_device(device))
    readable = [text for text in texts if text is not None]
    answers = run.learner.generate(model, run.vocabularies, readable, search)
    for text in texts:
        result = None if text is None else next(answers)
        answer = "" if result is None else result.text if plain else str(result)
        print(answer if plain else f"\n{answer}")
    return 0


def _lines(run: Run, path: str, skip: bool) -> list[str | None]:
    """Return the lines of a file; `None` if empty or, with `skip`, if the model cannot read it."""
    content, name = (sys.stdin.read(), "<stdin>") if path == "-" else (read_text(path), path)
    lines = enumerate(lines_of(content), start=1)
    return [_readable(run, line, f"{name}:{number}", skip) for number, line in lines]


def _readable(run: Run, line: str, place: str, skip: bool) -> str | None:
    """Return a line, or `None` if it is empty.

    If the model cannot read the line, raise a `ValueError` that names `place`, the file and line
    number. With `skip`, print this error and return `None` instead.
    """
    if not line.strip():
        return None
    try:
        run.learner.parse(line, run.vocabularies)
    except ValueError as error:
        if not skip:
            raise ValueError(f"{place}: {error}") from None
        print(f"graphut: skipped {place}: {error}", file=sys.stderr)
        return None
    return line
