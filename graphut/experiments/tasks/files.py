"""Text files."""

from pathlib import Path

from graphut._files import reraise_for_file


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
