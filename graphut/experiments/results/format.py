"""How a record stands in its file: strict JSON, in one order, and short."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graphut._files import read_json, write_atomically


def write_record(path: str | Path, record: dict[str, Any]) -> None:
    """Write a record: keys are sorted, and what holds no more than numbers takes one line."""
    write_atomically(path, f"{_text(record)}\n".encode())


def read_record(path: str | Path) -> dict[str, Any]:
    """Read a record.

    Raises
    ------
    ValueError
        If it is not a JSON object; the message names the file.
    """
    record = read_json(path)
    if not isinstance(record, dict):
        raise ValueError(f"{path} is no record: it holds {type(record).__name__}, no object")
    return record


def _text(value: Any, margin: str = "") -> str:
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (dict, list)) or not any(isinstance(x, (dict, list)) for x in inner):
        return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    deeper = margin + " "
    if isinstance(value, list):
        lines = [_text(x, deeper) for x in value]
    else:
        lines = [f"{json.dumps(key)}: {_text(value[key], deeper)}" for key in sorted(value)]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    body = ",\n".join(deeper + line for line in lines)
    return f"{opening}\n{body}\n{margin}{closing}"
