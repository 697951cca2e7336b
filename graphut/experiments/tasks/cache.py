"""Parsed data, kept so that it need not be parsed again."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from graphut._files import cache_folder, write_atomically
from graphut.experiments.tasks.packed import Arrays


def key_of(*settings: object, texts: Iterable[str]) -> str:
    """A key for what is parsed from texts.

    Parameters
    ----------
    *settings
        Whatever else it depends on: which data it is, options, the parser's version.
    texts : iterable of str
        In order.

    Examples
    --------
    >>> key_of("a", 1, texts=["x", "y"]) == key_of("a", 1, texts=["xy"])
    False
    """
    digests = [sha256(text.encode()).hexdigest() for text in texts]
    return repr((settings, digests))


def cached(key: str, make: Callable[[], Arrays]) -> Arrays:
    """What `make` returns: from the cache if it is there, and else made and written to it.

    The cache is the folder `tasks` in `$GRAPHUT_CACHE`, or in `graphut` under
    `$XDG_CACHE_HOME` or `~/.cache`. A file that cannot be read is made anew, and what cannot be
    written is only handed back.

    Parameters
    ----------
    key : str
        Says all that the arrays depend on: which data, its checksums, the parser's version.
    make : callable
        Parses. Arrays of objects are refused.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from unittest.mock import patch
    >>> with TemporaryDirectory() as folder, patch.dict("os.environ", GRAPHUT_CACHE=folder):
    ...     first = cached("squares 1", lambda: {"squares": np.arange(4) ** 2})
    ...     cached("squares 1", lambda: print("is not called again"))["squares"]
    array([0, 1, 4, 9])
    """
    path = cache_folder() / "tasks" / f"{sha256(key.encode()).hexdigest()}.npz"
    kept = _read(path)
    if kept is not None:
        return kept
    arrays = make()
    _write(path, arrays)
    return arrays


def _read(path: Path) -> Arrays | None:
    try:
        with ZipFile(path) as archive:
            if archive.testzip() is not None:  # by the checksum of each array
                return None
            return {name.removesuffix(".npy"): _array(archive, name) for name in archive.namelist()}
    except Exception:  # whatever is wrong with it, it can be made again
        return None


def _array(archive: ZipFile, name: str) -> NDArray[Any]:
    with archive.open(name) as file:
        found: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return found


def _write(path: Path, arrays: Arrays) -> None:
    if wrong := [name for name, array in arrays.items() if array.dtype.hasobject]:
        raise TypeError(f"{', '.join(wrong)} holds objects, which a cache does not take")
    data = io.BytesIO()
    np.savez(data, **arrays)  # type: ignore[arg-type]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data.getvalue())
    except OSError:
        pass  # a full or read-only disk costs time alone
