"""Tables of results as CSV files, and numbers as text."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from graphut._files import explain_write_errors, read_file, reraise_for_file, write_atomically

NOT_MEASURED = "-"
_SHARES = ("accuracy", "eccentricity", "known", "quiescent", "share")


def three_digits(value: float) -> str:
    """Format a number with three significant digits; from 1000 on, round it to an integer."""
    text = f"{value:#.3g}"
    return f"{value:.0f}" if "e+" in text else text.rstrip(".")


def percent(value: float) -> str:
    """Format a share (from 0 to 1) as a percentage; only an exact 1 is written as 100.00%."""
    return f"{min(value, 0.9999) if value < 1 else value:.2%}"


def is_share(metric: str) -> bool:
    """Return whether a metric's name is that of a share (from 0 to 1), such as an accuracy."""
    return any(word in metric for word in _SHARES)


def with_prefix(value: float) -> str:
    """Format a count with three digits and a unit prefix, such as "k" for thousands."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{three_digits(value / factor)} {prefix}"
    return three_digits(value)


def append_rows(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append rows to a CSV file, and new columns to its header.

    Floats have six significant digits, and `None` is an empty cell. Several processes may append to
    the same file; `.NAME.lock` is its lock. Raise `ValueError` if the file is not a CSV table.
    """
    path = Path(path).resolve()
    with explain_write_errors(path):
        lock = FileLock(path.with_name(f".{path.name}.lock")).acquire()
    with lock:
        columns, cells = _read(path) if path.exists() else ([], [])
        width = len(columns)
        columns = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([*old, *[""] * (len(columns) - width)] for old in cells)
        writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
        write_atomically(path, text.getvalue().encode())


def check_table(path: str | Path) -> None:
    """Raise `ValueError` or `OSError` if `append_rows` cannot write to a file."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: make its folder, or name another")
    if path.exists():
        _read(path)


def _read(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns of a CSV file, and the cells of each row."""
    with reraise_for_file(path, "is not a table of results"):
        text = read_file(path).decode()
        columns, *rows = [*csv.reader(io.StringIO(text), strict=True)] or [[]]
        if len({*columns}) < len(columns) or not all(columns):
            raise ValueError("its first line must have a different name for each column")
        for number, row in enumerate(rows, 1):
            if len(row) != len(columns):
                raise ValueError(f"row {number} has {len(row)} cells and {len(columns)} columns")
    return columns, rows


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
