"""Files of published data sets, text files of the user, and a cache of parsed data."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from graphut._files import cache_folder, reraise_for_file, write_atomically

_NO_TEXT = "is not a text file in UTF-8"


@dataclass(frozen=True)
class DataSet:
    """The files of a published data set, with their checksums."""

    origin: str  # for messages: the source of the data, and the folder to name
    checksums: Mapping[str, str | None]  # SHA-256 by path inside the folder; None if unknown

    def read(self, folder: str | Path, name: str) -> str:
        """Return the text of the file `name` in a folder, after a check of its checksum."""
        path = Path(folder, name)
        if not path.is_file():
            raise FileNotFoundError(f"there is no {path}; get the data {self.origin}")
        data = path.read_bytes()
        expected, actual = self.checksums[name], sha256(data).hexdigest()
        if expected not in (None, actual):
            raise ValueError(
                f"{path} is damaged: its SHA-256 is {actual}, and should be "
                f"{expected}; get the data {self.origin}"
            )
        with reraise_for_file(path, _NO_TEXT):
            return data.decode()


def published_checksums(module: str) -> dict[str, str | None]:
    """Return a dictionary from files to SHA-256 checksums, from `NAME.sha256` beside `NAME.py`."""
    lines = Path(module).with_suffix(".sha256").read_text().splitlines()
    return {file: checksum for checksum, file in map(str.split, lines)}


def lines_of(text: str) -> list[str]:
    r"""Split a text at `\n` only, unlike `str.splitlines`.

    Examples
    --------
    >>> lines_of("a\u2028b\nc\n")
    ['a\u2028b', 'c']
    """
    return text.removesuffix("\n").split("\n")


def read_text(path: str | Path, origin: str = "") -> str:
    """Return the text of a user's file, without a byte order mark.

    If the file is missing, `origin` in the error message says where to get such a file.
    """
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a text file in it")
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no {path}{f'; {origin}' if origin else ''}")
    with reraise_for_file(path, _NO_TEXT):
        return Path(path).read_text(encoding="utf-8-sig")


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
