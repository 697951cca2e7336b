"""The metrics file: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphut._files import write_atomically


def append_metrics(path: str | Path, metrics: Mapping[str, Any]) -> None:
    """Append a line, and flush it."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(metrics) + "\n")


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """The lines of a metrics file; none, if there is no file.

    A last line that was cut off while it was written is left out.

    Raises
    ------
    ValueError
        If another line is damaged; the message names it.
    """
    if not Path(path).exists():
        return []
    text = Path(path).read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    lines = enumerate(whole.splitlines(), start=1)
    return [_parsed(line, f"{path}:{number}") for number, line in lines]


def _parsed(line: str, place: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{place} is damaged: {error}") from None
    return found


def drop_metrics_after(path: str | Path, update: int) -> None:
    """Drop the lines of later updates than this one: they will be written again."""
    kept = [line for line in read_metrics(path) if line["update"] <= update]
    write_atomically(path, "".join(json.dumps(line) + "\n" for line in kept).encode())
