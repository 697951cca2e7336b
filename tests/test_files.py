from __future__ import annotations

from pathlib import Path

import pytest

from graphut._files import read_json, write_atomically, write_json


def test_a_failed_write_keeps_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"first")

    def no_space(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_json_comes_back(tmp_path: Path) -> None:
    value = {"list": [1, 0.1, None, "ü"], "flag": True}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value


def test_json_has_no_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", float("nan"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b'{"half": ', b"\xff\xfe", b""])
def test_a_file_that_is_not_json_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.json is not a JSON file"):
        read_json(path)
