"""Checks whether a folder contains a run, without importing torch."""

from __future__ import annotations

from pathlib import Path

RUN, CHECKPOINT = "run.json", "checkpoint.safetensors"


def is_run(folder: str | Path) -> bool:
    """Return whether a folder contains a run."""
    return Path(folder, RUN).is_file()


def check_is_new(folder: str | Path) -> None:
    """Raise `FileExistsError` if a folder contains a run, or a checkpoint."""
    if is_run(folder) or Path(folder, CHECKPOINT).exists():
        raise FileExistsError(f"there is a run in {folder}: --resume it, or use another --out")


def check_is_run(folder: str | Path) -> None:
    """Raise `FileNotFoundError` if a folder contains no run."""
    if not is_run(folder):
        raise FileNotFoundError(f"there is no run in {folder}: it has no {RUN}")
