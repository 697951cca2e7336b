"""Files of published data sets, in a folder that the user names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from graphut._files import reraise_for_file

_NAMED = 4  # missing files in a message
_NO_TEXT = "is not a text file in UTF-8"


@dataclass(frozen=True)
class DataSet:
    """The files that are expected of a data set."""

    origin: str  # where to get it, and which folder to name; for messages
    # SHA-256, in hexadecimal, of each file, by its path inside the folder. None where it is not
    # known: the file is taken as it is.
    checksums: Mapping[str, str | None]

    def unchecked(self, folder: str | Path) -> dict[str, Path]:
        """Return the files in a folder without a known checksum, for `Task.unchecked_files`."""
        names = (name for name, checksum in self.checksums.items() if checksum is None)
        return {f"data/{name}": Path(folder, name) for name in names}

    def read(self, folder: str | Path, name: str) -> str:
        """Return the text of a file, which must be UTF-8 and have the published checksum."""
        path = Path(folder, name)
        if not path.is_file():
            missing = [name for name in self.checksums if not Path(folder, name).is_file()]
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            raise FileNotFoundError(
                f"there is no {path}; missing in the folder: {', '.join(missing[:_NAMED])}{more}; "
                f"to be had {self.origin}"
            )
        data = path.read_bytes()
        expected, found = self.checksums[name], sha256(data).hexdigest()
        if expected not in (None, found):
            raise ValueError(
                f"{path} is damaged: its SHA-256 is {found}, and should be "
                f"{expected}; to be had {self.origin}"
            )
        with reraise_for_file(path, _NO_TEXT):
            return data.decode()


def published_checksums(name: str) -> dict[str, str]:
    """Return the SHA-256 of each file of a data set, from `name.sha256` beside this file."""
    lines = Path(__file__).with_name(f"{name}.sha256").read_text().splitlines()
    return {file: checksum for checksum, file in map(str.split, lines)}


def digest_of(path: str | Path) -> str:
    """Return the SHA-256, in hexadecimal, of a file, or of all `.txt` files in a folder."""
    digest = sha256()
    for file in text_files(path):
        digest.update(sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def text_files(path: str | Path) -> list[Path]:
    """Return a file alone, or all `.txt` files in a folder and the folders in it."""
    return sorted(Path(path).rglob("*.txt")) if Path(path).is_dir() else [Path(path)]


def lines_of(text: str) -> list[str]:
    r"""Return the lines of a file, as its publishers count them: only `\n` ends one.

    Examples
    --------
    >>> lines_of("a\u2028b\nc\n")
    ['a\u2028b', 'c']
    """
    return text.removesuffix("\n").split("\n")


def read_text(path: str | Path, origin: str = "") -> str:
    """Return the text of a user's own file without a byte order mark.

    Errors name the file, and `origin` says in them where one could come from.
    """
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file of text in it")
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no {path}{f'; {origin}' if origin else ''}")
    with reraise_for_file(path, _NO_TEXT):
        return Path(path).read_text(encoding="utf-8-sig")
