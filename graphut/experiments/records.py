"""Records of results: CSV tables, and descriptions of this machine and the installed packages."""

from __future__ import annotations

import csv
import io
import platform
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock

from graphut._files import explain_write_errors, reraise_for_file, write_atomically
from graphut._torch import torch
from graphut._version import __version__

# NumPy shuffles, and tokenizers makes subwords: results depend on both.
_PACKAGES = ("torch", "dgl", "numpy", "tokenizers")


def describe_machine(device: torch.device) -> dict[str, object]:
    """Return a dictionary with the CPU, the GPU, the number of threads and package versions."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "cpu": cpu_name(),
        "gpu": gpu,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "graphut": __version__,
        "commit": _commit(),
        **{package: _version(package) for package in _PACKAGES},
    }


@cache
def cpu_name() -> str:
    """Return the model name of the processor, or its architecture if the name is unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (named or [platform.processor() or platform.machine() or "unknown"])[0]


@cache
def _commit() -> str | None:
    """Return graphut's git commit, or None without git; a final "+" marks uncommitted changes."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    words = ["git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"]
    try:
        done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


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
        text = path.read_text("utf-8")
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
