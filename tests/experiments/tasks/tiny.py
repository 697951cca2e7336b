"""Every task of pairs that needs no files, with few of them."""

from dataclasses import MISSING, fields
from typing import Any

from graphut.experiments.tasks import TASKS, PairTask

GENERATED = [
    name
    for name, kind in TASKS.items()
    if issubclass(kind, PairTask) and all(field.default is not MISSING for field in fields(kind))
]
SIZES = {"epoch_size": 60, "train_size": 60, "held_out": 40}


def tiny(name: str, **options: Any) -> PairTask:
    kind: Any = TASKS[name]
    known = {field.name for field in fields(kind)}
    task: PairTask = kind(**{k: v for k, v in SIZES.items() if k in known}, **options)
    return task
