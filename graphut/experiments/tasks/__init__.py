"""Tasks: data sets and their presets, by name, and by the path of a file that defines one."""

import sys
from collections import UserDict
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from graphut._lazy import lazy_names
from graphut.experiments.messages import reraise_import_errors
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
from graphut.experiments.tasks.presets import SMALL
from graphut.models.checked_config import option
from graphut.vocabulary import Vocabulary

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
    "option",
    "preset_of",
    "write_arrays",
]

__getattr__, __dir__ = lazy_names(__name__)


class TaskRegistry(UserDict[str, Any]):
    """Task classes by name, or by the path of a Python file that defines one.

    A module or a file is imported when one of its tasks is first asked for. The path of a file
    with several tasks is followed by a colon and the name of one: `examples/tasks/lte.py:copy`;
    without, it is the task that is named like the file.
    """

    def __getitem__(self, word: str) -> type[Task]:
        if word not in self.data and word in self:
            return _task_in_file(word)
        if isinstance(module := self.data[word], str):  # not imported yet
            self.data.update(_tasks_in(import_module(module)))
        task: type[Task] = self.data[word]
        return task

    def __contains__(self, word: object) -> bool:
        return word in self.data or str(word).partition(":")[0].endswith(".py")


_MODULES = {
    "algorithmic": "copy reverse sort algorithmic-copy algorithmic-reverse algorithmic-addition",
    "translation": "multi30k",
    "char_lm": "char-lm",
    "pairs": "pairs",
    "graph_problems": "graph-distance graph-reach graph-path graph-bfs graph-dijkstra",
    "own_graphs": "graphs",
}

TASKS = TaskRegistry(
    {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names.split()}
)
"""All tasks, by name or file. A module with a task adds it: `TASKS["doubling"] = Doubling`."""


def preset_of(task: str, name: str | None = None) -> dict[str, Any]:
    """Return the options in a preset (default: `small`), or `{}` if the task has no presets.

    Raise `ValueError` if the task has no preset of that name.
    """
    presets = TASKS[task].presets
    if name is not None and name not in presets:
        choices = f"it has: {', '.join(presets)}" if presets else "it has none"
        raise ValueError(f"the task {task} has no preset {name!r}; {choices}")
    return dict(presets.get(name or SMALL, {}))


def _task_in_file(word: str) -> type[Task]:
    """Return the task of a file; the file is imported once.

    The word is `PATH:NAME`, or `PATH` for the only task, or the task that is named like the file.
    """
    path, _, name = word.partition(":")
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"there is no {path}: the path of a task's file begins at the current folder"
        )
    module_name = str(Path(path).absolute())  # no module of another package has such a name
    if module_name not in sys.modules:
        spec = spec_from_file_location(module_name, path)
        assert spec is not None and spec.loader is not None
        module = sys.modules[module_name] = module_from_spec(spec)  # dataclasses look there
        with reraise_import_errors(path):
            spec.loader.exec_module(module)
    tasks = _tasks_in(sys.modules[module_name])
    name = name or (min(tasks) if len(tasks) == 1 else Path(path).stem)
    if name not in tasks:
        forms = ", ".join(f"{path}:{each}" for each in tasks)
        advice = f"name one of its tasks: {forms}" if tasks else "it defines no task"
        raise ValueError(f"{word}: {advice}")
    return tasks[name]


def _tasks_in(module: ModuleType) -> dict[str, type[Task]]:
    """Return the tasks that a module defines, by name: all subclasses of `Task` with a name."""
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type)]
    kinds = [kind for kind in kinds if kind.__module__ == module.__name__]
    return {kind.name: kind for kind in kinds if issubclass(kind, Task) and "name" in vars(kind)}
