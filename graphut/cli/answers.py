"""What a model answers, with the steps it took."""

from __future__ import annotations

from typing import Any

from graphut.cli.table import steps_table
from graphut.models import UniversalTransformer
from graphut.tasks import EOS
from graphut.training import Run


def show_answers(
    run: Run, model: UniversalTransformer, sources: list[list[int]], **options: Any
) -> None:
    """Print sources and outputs, and under each token the number of steps it took.

    Parameters
    ----------
    run : Run
        Whose vocabularies to use.
    model : UniversalTransformer
        Asked for the outputs.
    sources : list of list of int
        Token ids.
    **options
        For `model.generate`.
    """
    for source, result in zip(sources, model.generate(sources, **options), strict=True):
        output = [*result.tokens, EOS][: len(result.steps)]
        print()
        print(steps_table("input", run.source_vocabulary.decode(source), result.source_steps))
        print(steps_table("output", run.target_vocabulary.decode(output), result.steps))
