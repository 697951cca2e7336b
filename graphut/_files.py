"""Files that are replaced atomically, checksums of JSON files, and the cache folder.

The checksums in `config.json`, `run.json` and safetensors files detect accidents: a flipped bit, a
partial copy, a slip in an editor, or a file of another model. They are no signature, so load models
of people you trust.

- JSON file: the field `sha256` covers the values of all other fields, but not their layout.
- Safetensors file: `sha256` in the header covers the tensors and the other texts in the header.
- Weights of a model: the text `config` in their header is the checksum of their `config.json`.
  Where `config.json` has a checksum, weights without one are refused.
"""

from __future__ import annotations

import errno
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

_ADVICE = {
    errno.ENOSPC: "free some",
    errno.EDQUOT: "free some",
    errno.EFBIG: "raise the limit on the size of a file",
    errno.ENOENT: "make its folder, or name another",
}
_CHECKSUM = "sha256"


def write_atomically(path: str | Path, *parts: bytes | memoryview) -> None:
    """Write the parts of a file; after a failure, `path` still has its former content."""
    with staged_write(path, *parts):
        pass


@contextmanager
def staged_write(path: str | Path, *parts: bytes | memoryview) -> Iterator[None]:
    """Write a temporary file, and rename it to `path` if the `with` block raises no error.

    The name of the temporary file, `.NAME.PROCESS.RANDOM.tmp`, cannot be predicted.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{token_hex(8)}.tmp")
    with explain_write_errors(path):
        # Mode "x" is O_CREAT | O_EXCL, which does not follow symbolic links.
        file = temporary.open("xb")
    try:
        with explain_write_errors(path), file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        yield
        with explain_write_errors(path):
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def explain_write_errors(path: str | Path) -> Iterator[None]:
    """Add the path and advice to the message of an `OSError` raised in the `with` block."""
    try:
        yield
    except TimeoutError:
        raise  # another process has locked the file
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "name a folder in which you may write")
        text = f"cannot write {path}: {error.strerror or error}: {advice}"
        raise OSError(error.errno, text) from error


def write_json(path: str | Path, value: Any) -> None:
    """Write a value as JSON, atomically; raise `ValueError` for infinities and NaN."""
    write_atomically(path, encode_json(value))


def encode_json(value: Any) -> bytes:
    """Return a value as indented JSON; raise `ValueError` for infinities and NaN."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode()


def with_checksum(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a JSON object with their checksum, as the field `sha256`."""
    return {**fields, _CHECKSUM: json_checksum(fields)}


def read_checked_json(path: str | Path) -> tuple[dict[str, Any], bool]:
    """Read a JSON object; return its fields without the checksum, and whether it has one.

    A file without a checksum comes from an older version of graphut: call `warn_unchecked`. Raise
    `ValueError` if there is a checksum and it does not match.
    """
    fields = read_json(path)
    if not isinstance(fields, dict):
        raise ValueError(f"{path} does not hold a JSON object")
    if _CHECKSUM not in fields:
        return fields, False
    if fields.pop(_CHECKSUM) != json_checksum(fields):
        raise ValueError(
            f"{path} does not match its checksum: it was damaged or edited; restore it"
        )
    return fields, True


def json_checksum(fields: Mapping[str, Any]) -> str:
    """Return the SHA-256 of fields as JSON, independent of their order."""
    return sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def warn_unchecked(*paths: str | Path) -> None:
    """Warn that damage to these files cannot be detected, because they have no checksum."""
    names = " and ".join(map(str, paths))
    warnings.warn(
        f"damage to {names} cannot be detected: there is no checksum, as in files written by an "
        "older version of graphut",
        stacklevel=4,
    )


def read_file(path: str | Path) -> bytes:
    """Read a file; raise `ValueError` for a pipe or device, which might never end."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a plain file: remove it, or put the file back")
    return path.read_bytes()


def read_json(path: str | Path) -> Any:
    """Read a JSON file; raise `ValueError`, which names the file, if it does not hold JSON."""
    data = read_file(path)
    with reraise_for_file(path, "is not a JSON file"):
        return json.loads(data)


@contextmanager
def reraise_for_file(path: str | Path, fault: str = "is damaged") -> Iterator[None]:
    """Turn any error but an `OSError` into a `ValueError` that names the file and its fault."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        text = str(error) if isinstance(error, ValueError) else repr(error)
        text = text if len(text) < 500 else f"{text[:500]}..."
        raise ValueError(f"{path} {fault}".rstrip() + f": {text}") from error


def is_path(value: object) -> bool:
    """Return whether the value of an option is an absolute path, as text."""
    return isinstance(value, str) and Path(value).is_absolute()


def cache_folder() -> Path:
    """Return `$GRAPHUT_CACHE`, or `graphut` under `$XDG_CACHE_HOME` or `~/.cache`."""
    if folder := os.environ.get("GRAPHUT_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "graphut")
