"""Files that are written atomically, and JSON files."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any


def write_atomically(path: str | Path, *parts: bytes | memoryview) -> None:
    """Write `parts` into a file, in order; if this fails, the file keeps its former content."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{token_hex(8)}.tmp")
    try:
        # Mode "x" is O_CREAT | O_EXCL, which does not follow symbolic links.
        with explain_write_errors(path):
            with temporary.open("xb") as file:
                file.writelines(parts)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def explain_write_errors(path: str | Path) -> Iterator[None]:
    """Context manager that adds the path to the message of an `OSError`."""
    try:
        yield
    except OSError as error:
        text = f"cannot write {path}: {error.strerror or error}"
        raise OSError(error.errno, text) from error


def write_json(path: str | Path, value: Any) -> None:
    """Write a value to a JSON file, atomically; raise `ValueError` for infinities and NaN."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(path, text.encode())


def read_json(path: str | Path) -> dict[str, Any]:
    """Return the object in a JSON file; raise `ValueError` if the file does not contain one."""
    data = Path(path).read_bytes()
    with reraise_for_file(path, "is not a JSON file"):
        value = json.loads(data)
    if not isinstance(value, dict):
        raise ValueError(f"{path} does not hold a JSON object")
    return value


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
