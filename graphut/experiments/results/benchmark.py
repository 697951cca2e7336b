"""What is kept of a benchmark."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphut.experiments.results.thinning import rounded

if TYPE_CHECKING:
    from typing_extensions import Self

KINDS = ("attention", "model", "scaling")
_LEFT_OUT = ("date", "system")
_OUT = "--out"


@dataclass(frozen=True)
class BenchRecord:
    """What `graphut bench --out` has written, without the date.

    Parameters
    ----------
    name : str
        That of its file.
    content : dict
        The report: its kind under "bench", "machine", "rows" and so on.
    """

    name: str
    content: dict[str, Any]

    @classmethod
    def from_dict(cls, name: str, state: Mapping[str, Any]) -> Self:
        """A report from its file.

        Raises
        ------
        ValueError
            If it is none.
        """
        missing = [key for key in ("command", "bench", "machine", "rows") if key not in state]
        if missing or state["bench"] not in KINDS:
            what = f"no {missing[0]!r}" if missing else f"a benchmark {state['bench']!r}"
            raise ValueError(f"it is no report of graphut bench: it has {what}")
        machine = {key: value for key, value in state["machine"].items() if key not in _LEFT_OUT}
        return cls(name, rounded({**state, "machine": machine, "command": _command(state)}))

    def to_dict(self) -> dict[str, Any]:
        """What its file holds."""
        return self.content

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        kind: str = self.content["bench"]
        return kind

    @property
    def command(self) -> str:
        """The command line that makes it again."""
        return shlex.join(self.content["command"])


def _command(state: Mapping[str, Any]) -> list[str]:
    """The words, without the file that they name."""
    words = list(state["command"])
    if _OUT in words:
        place = words.index(_OUT)
        del words[place : place + 2]
    return words
