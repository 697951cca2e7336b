from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphut.experiments.tasks.cache import Arrays, cached


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRAPHUT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Parser:
    """Return arrays, and count the calls."""

    def __init__(self, **arrays: object) -> None:
        self.arrays = {name: np.array(values) for name, values in arrays.items()}
        self.calls = 0

    def __call__(self) -> Arrays:
        self.calls += 1
        return self.arrays


def check(parser: Parser, *texts: str, calls: int, setting: int = 1) -> None:
    arrays = cached(parser, "data", setting, texts=texts)
    assert arrays.keys() == parser.arrays.keys() and parser.calls == calls
    for name, values in parser.arrays.items():
        assert arrays[name].dtype == values.dtype and np.array_equal(arrays[name], values)


def test_cached_calls_make_once_for_each_list_of_texts_and_each_setting() -> None:
    parsers = [Parser(tokens=[2, 3], words=["ä", "two"], none=[]), Parser(x=[2.5]), Parser(x=[3])]
    for _ in range(2):
        check(parsers[0], "one", "two", calls=1)
        check(parsers[1], "onetwo", calls=1)
        check(parsers[2], "one", "two", calls=1, setting=2)


def test_cached_replaces_a_truncated_file(folder: Path) -> None:
    parser = Parser(x=[1, 2, 3])
    check(parser, calls=1)
    for calls, size in enumerate((0, 1, 30, 100, -1), 2):
        [file] = (folder / "tasks").iterdir()
        file.write_bytes(file.read_bytes()[:size])
        check(parser, calls=calls)
        check(parser, calls=calls)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_cached_never_returns_other_arrays_after_a_changed_byte(
    folder: Path, place: int, value: int
) -> None:
    parser = Parser(x=list(range(50)))
    cached(parser, "data", 1)
    [file] = (folder / "tasks").iterdir()
    data = bytearray(file.read_bytes())
    data[place % len(data)] = value
    file.write_bytes(data)
    arrays = cached(parser, "data", 1)
    assert arrays.keys() == {"x"} and np.array_equal(arrays["x"], parser.arrays["x"])


def test_cached_ignores_a_folder_that_cannot_be_written(folder: Path) -> None:
    folder.write_text("a file in its place")
    parser = Parser(x=[1])
    for calls in (1, 2):
        check(parser, calls=calls)


def test_cached_neither_writes_nor_reads_objects(folder: Path) -> None:
    with pytest.raises(TypeError, match="pairs holds objects"):
        cached(lambda: {"pairs": np.array([[1], "x"], dtype=object)}, "data")
    assert not folder.exists()
    parser = Parser(x=[1])
    check(parser, calls=1)
    [file] = (folder / "tasks").iterdir()
    np.savez(file, x=np.array([{"evil": 1}], dtype=object))
    check(parser, calls=2)
