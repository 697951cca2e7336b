"""An on-disk cache of parsed data."""

import io
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphut._files import cache_folder, write_atomically

Arrays = dict[str, NDArray[Any]]


def cached(make: Callable[[], Arrays], *settings: object, texts: Iterable[str] = ()) -> Arrays:
    """Load arrays from the cache, or call `make` and save its result there.

    The key of the cache consists of the settings and of checksums of the texts. The result must not
    depend on anything else: after a change of the code of `make`, pass another setting. A damaged
    cache file is replaced, and an error while writing is ignored. The files are in
    `cache_folder() / "tasks"`.
    """
    digests = [sha256(text.encode()).hexdigest() for text in texts]
    key = repr((settings, digests))
    path = cache_folder() / "tasks" / f"{sha256(key.encode()).hexdigest()}.npz"
    # Any error means a damaged file: zip files have a checksum for each array.
    with suppress(Exception), path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
        return dict(kept)
    arrays = make()
    if names := [name for name, array in arrays.items() if array.dtype.hasobject]:
        raise TypeError(f"{', '.join(names)} holds objects, which cannot be cached")
    data = io.BytesIO()
    np.savez(data, **arrays)  # type: ignore[arg-type]
    with suppress(OSError):  # such as a full or read-only disk
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data.getvalue())
    return arrays


def pack_lists(lists: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    """Return one array: the number of lists, then the length of each list, then all values."""
    values = chain([len(lists)], map(len, lists), chain.from_iterable(lists))
    return np.fromiter(values, np.int32)


def unpack_lists(array: NDArray[np.int32]) -> list[list[int]]:
    """Restore lists from the array that `pack_lists` returned."""
    first = 1 + int(array[0])
    values, ends = array[first:].tolist(), np.cumsum(array[1:first]).tolist()
    return [values[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def pack_json(value: object) -> NDArray[np.uint8]:
    """Encode a value as JSON, and return the bytes as an array."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def unpack_json(array: NDArray[np.uint8]) -> Any:
    """Restore a value from the array that `pack_json` returned."""
    return json.loads(array.tobytes())
