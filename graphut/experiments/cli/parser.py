"""Argument parsers whose errors take one line."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import NoReturn


class Parser(ArgumentParser):
    """An `ArgumentParser` that says what is wrong in one line, and names options in full."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options, allow_abbrev=False)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        self.exit(2, f"graphut: {message} (see {self.prog} --help)\n")
