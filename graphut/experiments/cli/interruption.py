"""Ctrl-C and SIGTERM as a flag that training looks at between updates."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """A context in which the first Ctrl-C or SIGTERM is noted, and a second one acts as ever.

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
        self._handlers = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    @property
    def happened(self) -> bool:
        """Whether there was a signal."""
        return self.signal is not None

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = int(number)
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
