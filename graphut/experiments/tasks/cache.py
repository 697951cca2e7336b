"""An on-disk cache of parsed data."""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Any

from graphut._files import cache_folder, read_checked_json, with_checksum, write_atomically


def cached(make: Callable[[], Any], *settings: object, texts: Iterable[str] = ()) -> Any:
    """Load a value from the cache, or call `make` and save its result there, as JSON.

    The key of the cache consists of the settings and of checksums of the texts. The result must not
    depend on anything else: after a change of the code of `make`, pass another setting. Tuples
    become lists. A damaged file is replaced, and an error while writing is ignored. The files are
    in `cache_folder() / "tasks"`.
    """
    key = repr((settings, [sha256(text.encode()).hexdigest() for text in texts]))
    path = cache_folder() / "tasks" / f"{sha256(key.encode()).hexdigest()}.json"
    with suppress(OSError, ValueError):
        return read_checked_json(path)["value"]
    data = json.dumps(with_checksum({"value": make()}))
    with suppress(OSError):  # such as a full or read-only disk
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data.encode())
    return json.loads(data)["value"]
