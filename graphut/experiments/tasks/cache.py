"""Parsed data as arrays, kept in a folder so that it need not be parsed again."""

from __future__ import annotations

import gc
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphut._files import cache_folder, write_atomically

Arrays = dict[str, NDArray[Any]]


def cached(make: Callable[[], Arrays], *settings: object, texts: Iterable[str] = ()) -> Arrays:
    """Return arrays from the cache if they are there; else make them, and write them to it.

    The cache is the folder `tasks` in `$GRAPHUT_CACHE`, or in `graphut` under
    `$XDG_CACHE_HOME` or `~/.cache`. A file that cannot be read is made anew, and arrays that
    cannot be written are only returned. They are made of the texts; all else that they depend on,
    such as the parser's version, is among the settings. Arrays of objects are refused.
    """
    digests = [sha256(text.encode()).hexdigest() for text in texts]
    key = repr((settings, digests))
    path = cache_folder() / "tasks" / f"{sha256(key.encode()).hexdigest()}.npz"
    # Whatever is wrong with a file, it can be made again; zipfile checks the sum of each array.
    with suppress(Exception), path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
        return dict(kept)
    arrays = make()
    _write(path, arrays)
    return arrays


def _write(path: Path, arrays: Arrays) -> None:
    if wrong := [name for name, array in arrays.items() if array.dtype.hasobject]:
        raise TypeError(f"{', '.join(wrong)} holds objects, which a cache does not take")
    data = io.BytesIO()
    np.savez(data, **arrays)  # type: ignore[arg-type]
    with suppress(OSError):  # a full or read-only disk costs time alone
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data.getvalue())


def pack_lists(lists: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    """Return lists of integers as one array: their number, their lengths, and then their values."""
    values = chain([len(lists)], map(len, lists), chain.from_iterable(lists))
    return np.fromiter(values, np.int32)


def unpack_lists(array: NDArray[np.int32]) -> list[list[int]]:
    """Return the lists that `pack_lists` was given."""
    first = 1 + int(array[0])
    values, ends = array[first:].tolist(), np.cumsum(array[1:first]).tolist()
    return [values[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Pause the garbage collector, which walks over all new lists again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def pack_json(value: object) -> NDArray[np.uint8]:
    """Return lists, numbers and texts as an array."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def unpack_json(array: NDArray[np.uint8]) -> Any:
    """Return the value that `pack_json` was given."""
    return json.loads(array.tobytes())
