"""Ctrl-C and SIGTERM as a flag that training looks at between updates."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

from graphut.experiments.training.processes import num_processes

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """A context in which the first Ctrl-C or SIGTERM is noted, and a second one acts as usual.

    Of several processes none is ended by a second one: `torchrun` kills what does not end in time.
    `signal` is its number, or `None`.

    Examples
    --------
    >>> with Interruption() as interruption:
    ...     signal.raise_signal(signal.SIGINT)
    ...     interruption.signal
    2
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        """Put the handlers in place."""
        self._handlers = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        """Put the handlers of before back."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = int(number)
        # torchrun passes on a signal that its processes may have had from the terminal already.
        if num_processes() == 1:
            self.__exit__()
