"""One process at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a Unix: nobody is kept out
    fcntl = None  # type: ignore[assignment]

LOCK = "lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder; the system lets them in when this one ends.

    Raises
    ------
    BlockingIOError
        If another one keeps this process out.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, locked(Path(folder)):  # doctest: +ELLIPSIS
    ...     with locked(Path(folder)):
    ...         pass
    Traceback (most recent call last):
    BlockingIOError: another process is training in ...
    """
    with (folder / LOCK).open("w") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BlockingIOError(
                    f"another process is training in {folder}: wait for it, or give another folder"
                ) from None
        yield
