import os
from pathlib import Path

import pytest

from graphut._files import (
    read_json,
    write_atomically,
    write_json,
)
from tests.helpers import refuses


def test_write_atomically_keeps_the_file_when_no_space_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"first")

    def fail(_: int) -> None:
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"x")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"cannot write .*/file: No space left on device"):
        write_atomically(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("new/file", FileNotFoundError, "No such file or directory"),
        ("folder", IsADirectoryError, "Is a directory"),
    ],
)
def test_write_atomically_names_the_file(
    tmp_path: Path, name: str, kind: type[OSError], message: str
) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(kind, match=rf"cannot write {tmp_path / name}: {message}"):
        write_atomically(tmp_path / name, b"x")


def test_write_json_and_read_json_round_trip(tmp_path: Path) -> None:
    value = {"list": [1, 0.1, None, "ü"], "flag": True}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value
    refuses("not JSON compliant", write_json, tmp_path / "b.json", float("nan"))
    assert not (tmp_path / "b.json").exists()


@pytest.mark.parametrize("content", [b'{"half": ', b"\xff\xfe", b"", b"[" * 100_000])
def test_read_json_names_a_file_that_is_no_json(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    refuses(r"broken\.json is not a JSON file", read_json, path)
    write_json(path, [1])
    refuses(r"broken\.json does not hold a JSON object", read_json, path)
