from pathlib import Path
from typing import Any

import pytest

from graphut.experiments.tasks.files import cached


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRAPHUT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Parser:
    """Return a value, and count the calls."""

    def __init__(self, value: Any) -> None:
        self.value, self.calls = value, 0

    def __call__(self) -> Any:
        self.calls += 1
        return self.value


def check(parser: Parser, *texts: str, calls: int, setting: int = 1) -> None:
    assert cached(parser, "data", setting, texts=texts) == parser.value and parser.calls == calls


def test_cached_calls_make_once_for_each_list_of_texts_and_each_setting(folder: Path) -> None:
    parsers = [Parser({"tokens": [2, 3], "words": ["ä", "two"]}), Parser([2.5]), Parser([3])]
    for _ in range(2):
        check(parsers[0], "one", "two", calls=1)
        check(parsers[1], "onetwo", calls=1)
        check(parsers[2], "one", "two", calls=1, setting=2)
    assert [cached(lambda: ((1, 2), (3,)), "lists") for _ in "12"] == [[[1, 2], [3]]] * 2


def test_cached_replaces_a_damaged_file(folder: Path) -> None:
    parser = Parser([1, 2, 3])
    check(parser, calls=1)
    [file] = (folder / "tasks").iterdir()
    whole = file.read_bytes()
    for calls, damaged in enumerate((b"", whole[:-1]), 2):
        file.write_bytes(damaged)
        check(parser, calls=calls)
        check(parser, calls=calls)
