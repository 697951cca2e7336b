"""The registered tasks and their presets, by name."""

from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, TypeVar

from graphut.experiments.tasks.base import Task
from graphut.experiments.tasks.presets import SMALL

TASKS: dict[str, type[Task]] = {}
"""All registered tasks by name."""

TASK_PRESETS: dict[str, dict[str, dict[str, Any]]] = {}
"""The values of each preset, by the names of the task and of the preset."""

TaskT = TypeVar("TaskT", bound=type[Task])


def register_task(task: TaskT) -> TaskT:
    """Register a task class and its presets, and return the class; usable as a decorator.

    A class may be defined and registered again, for example in a notebook. Raise `ValueError` if
    the class has no name, or another task has the same name.
    """
    if not isinstance(name := getattr(task, "name", None), str):
        raise ValueError(f'{task} has the name {name!r}: give it one, such as name = "sort"')
    other = TASKS.get(name, task)
    if (other.__module__, other.__qualname__) != (task.__module__, task.__qualname__):
        raise ValueError(f"the name {name!r} of {task} is taken by {other}")
    TASKS[name] = task
    TASK_PRESETS.pop(name, None)
    if task.presets:
        TASK_PRESETS[name] = {preset: dict(fields) for preset, fields in task.presets.items()}
    return task


def register_module(module: ModuleType) -> None:
    """Register the tasks that a module defines: all subclasses of `Task` that set `name`."""
    for kind in vars(module).values():
        is_own = isinstance(kind, type) and kind.__module__ == module.__name__
        if is_own and issubclass(kind, Task) and "name" in vars(kind):
            register_task(kind)


def load_task_plugins() -> None:
    """Register the tasks of other packages, from the entry points of the group `graphut.tasks`.

    Raise `ImportError` if an entry point cannot be loaded. Raise `ValueError` if it is not a task,
    if it has another name than its task, or if a task of this name is registered already.
    """
    for plugin in entry_points(group="graphut.tasks"):
        package = plugin.dist.name if plugin.dist else "an unknown package"
        where = f"the task {plugin.name} = {plugin.value} of {package}"
        try:
            task = plugin.load()
        except Exception as error:  # so that the message names the package
            raise ImportError(f"{where} cannot be loaded: {error!r}") from error
        if not (isinstance(task, type) and issubclass(task, Task)):
            raise ValueError(f"{where} is not a subclass of graphut.experiments.tasks.Task")
        if (name := getattr(task, "name", None)) != plugin.name:
            raise ValueError(f"{where} has a task with another name: {name!r}")
        register_task(task)


def preset_of(task: str, name: str | None = None) -> dict[str, Any]:
    """Return the options in a preset (default: `small`), or `{}` if the task has no presets.

    Raise `ValueError` if the task has no preset of that name.
    """
    presets = TASK_PRESETS.get(task, {})
    if name is not None and name not in presets:
        choices = f"it has: {', '.join(presets)}" if presets else "it has none"
        raise ValueError(f"the task {task} has no preset {name!r}; {choices}")
    return presets.get(name or SMALL, {})
