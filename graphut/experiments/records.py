"""Records of results: CSV tables, and descriptions of this machine and the installed packages."""

from __future__ import annotations

import csv
import io
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
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


def append_rows(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append rows to a CSV file, and new columns to its header.

    Floats have six significant digits, and `None` is an empty cell. Several processes may append to
    the same file; `.NAME.lock` is its lock. Raise `ValueError` if the file is not a CSV table.
    """
    path = Path(path).resolve()
    with explain_write_errors(path):
        lock = FileLock(path.with_name(f".{path.name}.lock")).acquire()
    with lock:
        table = [*_read(path), *({name: _cell(x) for name, x in row.items()} for row in rows)]
        write_atomically(path, as_csv(table))


def as_csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a CSV table with the columns of all rows."""
    columns, text = dict.fromkeys(name for row in rows for name in row), io.StringIO()
    writer = csv.DictWriter(text, [*columns], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def check_table(path: str | Path) -> None:
    """Raise `ValueError` or `OSError` if `append_rows` cannot write to a file."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: make its folder, or name another")
    _read(path)


def _read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file, by column; none if there is no file."""
    if not path.exists():
        return []
    with reraise_for_file(path, "is not a table of results"):
        reader = csv.DictReader(io.StringIO(path.read_text("utf-8-sig")), strict=True)
        rows, columns = [*reader], reader.fieldnames or []
        if len({*columns}) < len(columns) or any(None in (*row, *row.values()) for row in rows):
            raise ValueError("each column must have its own name, and each row all columns")
    return rows


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
