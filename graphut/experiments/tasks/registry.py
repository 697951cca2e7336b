"""The tasks that the command line knows, by name, and their presets."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, TypeVar

from graphut.experiments.tasks.base import Task
from graphut.experiments.tasks.presets import SMALL

TASKS: dict[str, type[Task]] = {}
"""Every registered task by its name."""

TASK_PRESETS: dict[str, dict[str, dict[str, Any]]] = {}
"""The fields of each preset, by the name of a task and the name of the preset."""

TaskT = TypeVar("TaskT", bound=type[Task])


def register_task(task: TaskT) -> TaskT:
    """Add a task, under its `name` and with its `presets`, to what the command line knows.

    The class is also returned: the function can be used as a decorator. Raise `ValueError` if
    another task has the name.
    """
    known = TASKS.setdefault(task.name, task)
    if known is not task:
        raise ValueError(f"the name {task.name!r} of {task} is taken by {known}")
    if task.presets:
        presets = {name: dict(fields) for name, fields in task.presets.items()}
        TASK_PRESETS.setdefault(task.name, presets)
    return task


def load_task_plugins() -> None:
    """Register the tasks of other packages: the entry points of the group `graphut.tasks`.

    Such a package has in its `setup.cfg`, for a class `ParityTask` with the name "parity"::

        [options.entry_points]
        graphut.tasks =
            parity = my_package.parity:ParityTask

    Raise `ImportError` if an entry point cannot be loaded, and `ValueError` if it is no task, has
    another name than its task, or has the name of a task that is there already.
    """
    for plugin in entry_points(group="graphut.tasks"):
        package = plugin.dist.name if plugin.dist else "an unknown package"
        where = f"the task {plugin.name} = {plugin.value} of {package}"
        try:
            task = plugin.load()
        except Exception as error:  # the message has to name the package
            raise ImportError(f"{where} cannot be loaded: {error!r}") from error
        if not (isinstance(task, type) and issubclass(task, Task)):
            raise ValueError(f"{where} is no subclass of graphut.experiments.tasks.Task")
        if (name := getattr(task, "name", None)) != plugin.name:
            raise ValueError(f"{where} has another name: {name!r}")
        register_task(task)


def preset_of(task: str, name: str | None = None) -> dict[str, Any]:
    """Return the fields of a task's preset; of `small`, or none at all, if no preset is named.

    Raise `ValueError` if the task has no preset of that name.
    """
    known = TASK_PRESETS.get(task, {})
    if name is not None and name not in known:
        choices = f"it has: {', '.join(known)}" if known else "it has none"
        raise ValueError(f"the task {task} has no preset {name!r}; {choices}")
    return known.get(name or SMALL, {})
