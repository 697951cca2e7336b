"""The memory tasks of Learning to Execute: copy, double and reverse digits."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from random import Random
from string import digits
from typing import ClassVar

from graphut.experiments.tasks.lte import LearningToExecute


@dataclass(frozen=True)
class MemoryTask(LearningToExecute):
    """Random digits, to be written down."""

    length: int = field(default=55, metadata={"help": "digits in the longest source"})

    @abstractmethod
    def answer(self, source: str) -> str:
        """The target of a source."""

    def example(self, random: Random, *, hardest: bool = False) -> tuple[str, str]:
        length = self.length if hardest else random.randint(1, self.length)
        source = "".join(random.choices(digits, k=length))
        return source, self.answer(source)


class LteCopy(MemoryTask):
    """Digits, written once.

    Examples
    --------
    >>> LteCopy().answer("314")
    '314'
    """

    name: ClassVar[str] = "lte-copy"

    def answer(self, source: str) -> str:
        return source


class LteDouble(MemoryTask):
    """Digits, written twice.

    Examples
    --------
    >>> LteDouble().answer("314")
    '314314'
    """

    name: ClassVar[str] = "lte-double"

    def answer(self, source: str) -> str:
        return source * 2


class LteReverse(MemoryTask):
    """Digits, written backwards.

    Examples
    --------
    >>> LteReverse().answer("314")
    '413'
    """

    name: ClassVar[str] = "lte-reverse"

    def answer(self, source: str) -> str:
        return source[::-1]
