"""Ctrl-C and SIGTERM as a flag that training checks between updates."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

from graphut.experiments.training.processes import num_processes

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Context manager that records Ctrl-C or SIGTERM in `signal`, instead of ending the process.

    A second signal has its usual effect. In a process group, later signals are only recorded, too,
    because `torchrun` forwards signals that the terminal has already sent; `torchrun` kills a
    process that does not end in time.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        """Install the signal handlers."""
        self._handlers = {number: signal.signal(number, self._record) for number in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous signal handlers."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _record(self, number: int, frame: FrameType | None) -> None:
        self.signal = int(number)
        if num_processes() == 1:
            self.__exit__()
