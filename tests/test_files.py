from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphut._files import blaming, cache_folder, read_file, read_json, write_atomically, write_json


def test_write_atomically_keeps_the_file_when_no_space_is_left(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"first")
    (tmp_path / f".file.{os.getpid()}.tmp").symlink_to("/dev/full")  # where the new one goes first
    with pytest.raises(OSError, match=r"cannot write .*/file: No space left on device: free some"):
        write_atomically(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("new/file", FileNotFoundError, "No such file or directory: make its folder, or name"),
        ("old/file", NotADirectoryError, "Not a directory: name a folder in which you may write"),
    ],
)
def test_write_atomically_says_what_to_do(
    tmp_path: Path, name: str, kind: type[OSError], message: str
) -> None:
    (tmp_path / "old").touch()
    with pytest.raises(kind, match=rf"cannot write {tmp_path / name}: {message}"):
        write_atomically(tmp_path / name, b"x")


def test_write_json_and_read_json_round_trip(tmp_path: Path) -> None:
    value = {"list": [1, 0.1, None, "ü"], "flag": True}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value


def test_write_json_refuses_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", float("nan"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b'{"half": ', b"\xff\xfe", b"", b"[" * 100_000])
def test_read_json_names_a_file_that_is_no_json(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.json is not a JSON file"):
        read_json(path)


def test_read_file_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(ValueError, match=r"pipe\.json is not a plain file"):
        read_file(tmp_path / "pipe.json")
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "nothing")


@pytest.mark.parametrize("error", [KeyError, OverflowError, RecursionError, AttributeError])
def test_blaming_names_the_file(error: type[Exception]) -> None:
    with (
        pytest.raises(ValueError, match=r"a\.json is odd: .*Error\('x'\)"),
        blaming("a.json", "is odd"),
    ):
        raise error("x")
    with pytest.raises(PermissionError), blaming("a.json"):
        raise PermissionError("x")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"GRAPHUT_CACHE": "/one", "XDG_CACHE_HOME": "/two"}, "/one"),
        ({"GRAPHUT_CACHE": "", "XDG_CACHE_HOME": "/two"}, "/two/graphut"),
        ({"XDG_CACHE_HOME": ""}, "/home/cat/.cache/graphut"),
        ({}, "/home/cat/.cache/graphut"),
    ],
)
def test_cache_folder_is_that_of_the_first_variable_set(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GRAPHUT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/cat")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)
