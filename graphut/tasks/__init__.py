"""What to learn: sequences and the answers to them."""

from graphut.tasks.algorithmic import Copy, LetterTask, Reverse, Sort
from graphut.tasks.base import Pair, Task
from graphut.tasks.pairs import Pairs, read_pairs
from graphut.tasks.vocabulary import BOS, EOS, Vocabulary

TASKS: dict[str, type[Task]] = {task.name: task for task in (Copy, Reverse, Sort, Pairs)}
"""Every task by its name."""

__all__ = [
    "BOS",
    "EOS",
    "TASKS",
    "Copy",
    "LetterTask",
    "Pair",
    "Pairs",
    "Reverse",
    "Sort",
    "Task",
    "Vocabulary",
    "read_pairs",
]
