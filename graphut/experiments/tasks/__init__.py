"""Tasks: data sets and their presets."""

from importlib import import_module
from typing import TYPE_CHECKING

from graphut._lazy import lazy_names
from graphut.experiments.tasks.base import (
    GraphTask,
    LabelledGraph,
    Pair,
    PairTask,
    Passage,
    PassageTask,
    Question,
    QuestionTask,
    Task,
    Text,
    TextTask,
    Vocabularies,
)
from graphut.experiments.tasks.letters import Copy, Reverse, Sort
from graphut.experiments.tasks.own_graphs import Graphs
from graphut.experiments.tasks.pairs import Pairs
from graphut.experiments.tasks.registry import (
    TASK_PRESETS,
    TASKS,
    load_task_plugins,
    preset_of,
    register_module,
    register_task,
)
from graphut.experiments.tasks.vocabulary import Vocabulary, Words
from graphut.models.checked_config import option

if TYPE_CHECKING:
    from graphut.experiments.tasks.graph_arrays import write_arrays

_IN_ORDER_OF_HELP = (
    "letters algorithmic lte scan listops babi lambada agreement translation char_lm pairs "
    "graph_problems circuit_simulate sudoku own_graphs"
)
for _name in _IN_ORDER_OF_HELP.split():
    register_module(import_module(f"{__name__}.{_name}"))

__all__ = [
    "TASKS",
    "TASK_PRESETS",
    "Copy",
    "GraphTask",
    "Graphs",
    "LabelledGraph",
    "Pair",
    "PairTask",
    "Pairs",
    "Passage",
    "PassageTask",
    "Question",
    "QuestionTask",
    "Reverse",
    "Sort",
    "Task",
    "Text",
    "TextTask",
    "Vocabularies",
    "Vocabulary",
    "Words",
    "load_task_plugins",
    "option",
    "preset_of",
    "register_task",
    "write_arrays",
]

__getattr__, __dir__ = lazy_names(__name__)
