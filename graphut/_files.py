"""Writing files atomically, checksums of JSON files, and the cache folder.

The checksums in `config.json`, `run.json` and safetensors files detect accidents: a flipped bit, a
partial copy, an unintended edit, or a file of another model. They are not signatures: load only
models from people whom you trust. The field `sha256` of a JSON file covers all other fields.
"""

import errno
import json
import os
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
    errno.EISDIR: "name a file",
    errno.ENAMETOOLONG: "use a shorter name",
}
_CHECKSUM = "sha256"


def write_atomically(path: str | Path, *parts: bytes | memoryview) -> None:
    """Write `parts` into a file, in order; if this fails, the file keeps its former content."""
    with staged_write(path, *parts):
        pass


@contextmanager
def staged_write(path: str | Path, *parts: bytes | memoryview) -> Iterator[None]:
    """Context manager that writes a temporary file, and renames it to `path` after the block.

    If the block raises an error, `path` is unchanged.
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
    """Context manager that adds the path and advice to the message of an `OSError`."""
    try:
        yield
    except TimeoutError:
        raise  # another process has locked the file
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "name a folder in which you may write")
        text = f"cannot write {path}: {error.strerror or error}: {advice}"
        raise OSError(error.errno, text) from error


def write_json(path: str | Path, value: Any) -> None:
    """Write a value to a JSON file, atomically; raise `ValueError` for infinities and NaN."""
    write_atomically(path, encode_json(value))


def encode_json(value: Any) -> bytes:
    """Return a value as indented JSON; raise `ValueError` for infinities and NaN."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode()


def with_checksum(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a JSON object, and their checksum as the field `sha256`."""
    return {**fields, _CHECKSUM: json_checksum(fields)}


def write_checked_json(path: str | Path, fields: Mapping[str, Any]) -> None:
    """Write a JSON object and its checksum, as `write_json` does."""
    write_json(path, with_checksum(fields))


def read_checked_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON object without its checksum; raise `ValueError` if the checksum is wrong."""
    fields = read_json(path)
    if not isinstance(fields, dict):
        raise ValueError(f"{path} does not hold a JSON object")
    fault = "does not match its checksum" if _CHECKSUM in fields else "has no checksum"
    if fields.pop(_CHECKSUM, None) != json_checksum(fields):
        raise ValueError(f"{path} {fault}: it was damaged or edited; restore it")
    return fields


def json_checksum(fields: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON object, which does not depend on the order of its fields."""
    return sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def read_file(path: str | Path) -> bytes:
    """Return the bytes of a file; raise `ValueError` for a pipe or a device."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a plain file: remove it, or put the file back")
    return path.read_bytes()


def read_json(path: str | Path) -> Any:
    """Return the value in a JSON file; raise `ValueError` if the file does not contain JSON."""
    data = read_file(path)
    with reraise_for_file(path, "is not a JSON file"):
        return json.loads(data)


@contextmanager
def reraise_for_file(path: str | Path, fault: str = "is damaged") -> Iterator[None]:
    """Context manager that turns errors, except `OSError`, into a `ValueError` about the file."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        text = str(error) if isinstance(error, ValueError) else repr(error)
        text = text if len(text) < 500 else f"{text[:500]}..."
        raise ValueError(f"{path} {fault}".rstrip() + f": {text}") from error


def is_path(value: object) -> bool:
    """Return whether a value is a string that contains an absolute path."""
    return isinstance(value, str) and Path(value).is_absolute()


def cache_folder() -> Path:
    """Return the cache folder: `$GRAPHUT_CACHE`, or "graphut" in `$XDG_CACHE_HOME` or ~/.cache."""
    if folder := os.environ.get("GRAPHUT_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "graphut")
