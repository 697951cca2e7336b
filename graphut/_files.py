"""Files that are written whole or not at all, and the folder of the cache."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_ADVICE = {
    errno.ENOSPC: "free some",
    errno.EDQUOT: "free some",
    errno.EFBIG: "raise the limit on the size of a file",
    errno.ENOENT: "make its folder, or name another",
}


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write a file under a temporary name, flush it to the disk, and rename it.

    Whatever happens on the way, `path` holds either all of `data` or what it held before. An
    `OSError` names the file and says what to do.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder, "note"), b"kept")
    ...     Path(folder, "note").read_bytes()
    b'kept'
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Name a file or folder, and say what to do, in an `OSError` that comes while it is written.

    Examples
    --------
    >>> with writing("run.json"):
    ...     raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    Traceback (most recent call last):
    OSError: [Errno 28] cannot write run.json: No space left on device: free some
    """
    try:
        yield
    except TimeoutError:
        raise  # another process has locked the file
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "name a folder in which you may write")
        text = f"cannot write {path}: {error.strerror or error}: {advice}"
        raise OSError(error.errno, text) from error


def write_json(path: str | Path, value: Any) -> None:
    """Write a value as JSON, atomically; infinities and NaN are refused."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(path, text.encode())


def read_file(path: str | Path) -> bytes:
    """Read a file; raise `ValueError` for a pipe, which might never end, and the like."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a plain file: remove it, or put the file back")
    return path.read_bytes()


def read_json(path: str | Path) -> Any:
    """Read a JSON file; raise `ValueError`, which names the file, if it does not hold JSON."""
    data = read_file(path)
    with blaming(path, "is not a JSON file"):
        return json.loads(data)


@contextmanager
def blaming(path: str | Path, fault: str = "is damaged") -> Iterator[None]:
    """Raise `ValueError`, which names a file and its fault, for any error of its content.

    An `OSError`, such as that of a file that is not there, stays what it is.

    Examples
    --------
    >>> with blaming("run.json"):
    ...     {}["task"]
    Traceback (most recent call last):
    ValueError: run.json is damaged: KeyError('task')
    """
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        text = str(error) if isinstance(error, ValueError) else repr(error)
        raise ValueError(f"{path} {fault}".rstrip() + f": {text}") from error


def is_path(value: object) -> bool:
    """Return True if an option's value is a path: tasks keep absolute ones, as text.

    Examples
    --------
    >>> is_path("/data/babi"), is_path("babi"), is_path(3)
    (True, False, False)
    """
    return isinstance(value, str) and Path(value).is_absolute()


def cache_folder() -> Path:
    """Return `$GRAPHUT_CACHE`, or `graphut` under `$XDG_CACHE_HOME` or `~/.cache`."""
    folder = os.environ.get("GRAPHUT_CACHE")
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "graphut")
