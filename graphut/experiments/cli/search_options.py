"""The options of generating, of whatever kind the model will be."""

from __future__ import annotations

from collections.abc import Callable, Collection

from graphut.experiments.cli.options import add_options, field_names
from graphut.experiments.cli.parser import Parser
from graphut.experiments.training.learner import AnyLearner
from graphut.experiments.training.learners import LEARNERS


def add_search_options(parser: Parser, chosen: Callable[[AnyLearner], Collection[str]]) -> None:
    """Add the options that are chosen of each learner, each once."""
    group = parser.add_argument_group("where the model writes")
    known: set[str] = set()
    for learner in LEARNERS.values():
        names = field_names(learner.generation_kind)
        wanted = set(chosen(learner)) - known
        add_options(group, learner.generation_kind, [name for name in names if name not in wanted])
        known |= wanted
