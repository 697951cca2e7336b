"""Tasks: data sets and their presets."""

from typing import TYPE_CHECKING

from graphut._lazy import lazy_names
from graphut.experiments.tasks.base import (
    GraphTask,
    LabelledGraph,
    Pair,
    PairTask,
    Task,
    Text,
    TextTask,
    Vocabularies,
)
from graphut.experiments.tasks.registry import TASKS, preset_of, register_task
from graphut.models.checked_config import option
from graphut.vocabulary import Vocabulary, Words

if TYPE_CHECKING:
    from graphut.experiments.tasks.algorithmic import Copy, Reverse, Sort
    from graphut.experiments.tasks.graph_files import write_arrays
    from graphut.experiments.tasks.own_graphs import Graphs
    from graphut.experiments.tasks.pairs import Pairs

__all__ = [
    "TASKS",
    "Copy",
    "GraphTask",
    "Graphs",
    "LabelledGraph",
    "Pair",
    "PairTask",
    "Pairs",
    "Reverse",
    "Sort",
    "Task",
    "Text",
    "TextTask",
    "Vocabularies",
    "Vocabulary",
    "Words",
    "option",
    "preset_of",
    "register_task",
    "write_arrays",
]

__getattr__, __dir__ = lazy_names(__name__)
