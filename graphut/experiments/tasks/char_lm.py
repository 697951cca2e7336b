"""A language model of characters, from any file of text."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks.base import Text, TextTask
from graphut.experiments.tasks.characters import Characters
from graphut.experiments.tasks.files import read_text
from graphut.experiments.tasks.windows import drawn_windows, strided_windows

_ORIGIN = (
    "tiny-shakespeare is to be had from https://github.com/karpathy/char-rnn, "
    "data/tinyshakespeare/input.txt"
)


@dataclass(frozen=True)
class CharLM(TextTask):
    """A text, character by character.

    The first nine tenths of the file are trained on, the next twentieth is validated on, and the
    last is the test. An epoch is windows at random places. In validation and test each character
    counts once, and is predicted from half a window of those before it at least, or from all that
    its part of the file has before it.

    Parameters
    ----------
    data : str or Path
        A file of text in UTF-8.
    window : int
        Characters of a window.
    epoch_size : int
        Windows in an epoch.

    Raises
    ------
    ValueError, OSError
        When texts are asked for: if the file cannot be read, is no text, or is too short.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "text.txt")
    ...     _ = path.write_text("to be, or not to be. " * 10)
    ...     task = CharLM(path, window=8)
    ...     print(task.vocabulary)
    ...     print([task.vocabulary.write(text.tokens) for text in task.test])
    Vocabulary(␣ , . b e n o r t)
    ['not to b', 'to be. ']
    """

    name: ClassVar[str] = "char-lm"
    vocabulary_kind: ClassVar[type[Characters]] = Characters
    own_files: ClassVar[tuple[str, ...]] = ("data",)

    data: str | Path = field(metadata={"help": f"file of text; {_ORIGIN}"})
    window: int = field(default=128, metadata={"help": "characters of a window"})
    epoch_size: int = field(default=2000, metadata={"help": "windows in an epoch"})

    def __post_init__(self) -> None:
        self._check_at_least(2, "window")
        self._check_at_least(1, "epoch_size")
        self._make_absolute("data")

    @cached_property
    def vocabulary(self) -> Characters:
        return Characters.of(self._text)

    def train(self, seed: int, epoch: int) -> list[Text]:
        """Windows at random places of the first nine tenths."""
        tokens, count = self._parts[0], self.epoch_size
        return drawn_windows(tokens, self.window, count, seed=seed, epoch=epoch)

    @cached_property
    def validation(self) -> list[Text]:
        return strided_windows(self._parts[1], self.window)

    @cached_property
    def test(self) -> list[Text]:
        return strided_windows(self._parts[2], self.window)

    @cached_property
    def _parts(self) -> list[NDArray[Any]]:
        tokens = np.array(self.vocabulary.read(self._text), dtype=np.int32)
        return np.split(tokens, [len(tokens) * 18 // 20, len(tokens) * 19 // 20])

    @cached_property
    def _text(self) -> str:
        text = read_text(self.data, _ORIGIN)
        if len(text) < 20 * self.window:
            raise ValueError(
                f"{self.data} has {len(text)} characters: too few for windows of {self.window}; "
                f"give {20 * self.window} at least, or a smaller window"
            )
        return text
