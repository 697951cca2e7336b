"""Text files, and a cache of parsed data."""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from graphut._files import cache_folder, reraise_for_file, write_atomically


def lines_of(text: str) -> list[str]:
    r"""Split a text at `\n` only, unlike `str.splitlines`.

    Examples
    --------
    >>> lines_of("a\u2028b\nc\n")
    ['a\u2028b', 'c']
    """
    return text.removesuffix("\n").split("\n")


def read_text(path: str | Path, origin: str = "") -> str:
    r"""Return the text of a file, without a byte order mark, and with `\n` for `\r\n`.

    If the file is missing, `origin` in the error message says where to get it.
    """
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a text file in it")
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no {path}{f'; {origin}' if origin else ''}")
    with reraise_for_file(path, "is not a text file in UTF-8"):
        return Path(path).read_bytes().decode("utf-8-sig").replace("\r\n", "\n")


def cached(make: Callable[[], Any], *settings: object, texts: Iterable[str] = ()) -> Any:
    """Load a value from the cache, or call `make` and save its result there, as JSON.

    The key of the cache consists of the settings and of checksums of the texts. The result must not
    depend on anything else: after a change of the code of `make`, pass another setting. Tuples
    become lists. A file that is not JSON is replaced, and an error while writing is ignored.
    """
    key = repr((settings, [sha256(text.encode()).hexdigest() for text in texts]))
    path = cache_folder() / "tasks" / f"{sha256(key.encode()).hexdigest()}.json"
    with suppress(OSError, ValueError):
        return json.loads(path.read_bytes())
    data = json.dumps(make())
    with suppress(OSError):  # such as a full or read-only disk
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data.encode())
    return json.loads(data)
