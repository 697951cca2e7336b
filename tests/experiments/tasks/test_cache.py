from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphut.experiments.tasks.cache import (
    Arrays,
    cached,
    no_garbage_collection,
    pack_json,
    pack_lists,
    unpack_json,
    unpack_lists,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRAPHUT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Parser:
    """Counts how often it is asked."""

    def __init__(self, **arrays: object) -> None:
        self.arrays = {name: np.array(values) for name, values in arrays.items()}
        self.asked = 0

    def __call__(self) -> Arrays:
        self.asked += 1
        return self.arrays


def check(parser: Parser, *texts: str, asked: int) -> None:
    found = cached(parser, "data", texts=texts)
    assert found.keys() == parser.arrays.keys()
    for name, values in parser.arrays.items():
        assert found[name].dtype == values.dtype and np.array_equal(found[name], values)
    assert parser.asked == asked


def test_cached_does_not_make_again_what_is_there() -> None:
    parser = Parser(tokens=[2, 3], words=["ä", "two"], none=[])
    check(parser, "one", "two", asked=1)
    check(parser, "one", "two", asked=1)


def test_cached_has_arrays_of_its_own_for_all_texts_and_settings() -> None:
    first, second, third = Parser(x=[1]), Parser(x=[2.5]), Parser(x=[3])
    for _ in range(2):
        check(first, "one", "two", asked=1)
        check(second, "onetwo", asked=1)
        assert cached(third, "data", 2, texts=["one", "two"])["x"] == [3]
    assert third.asked == 1


@pytest.mark.parametrize("size", [0, 1, 30, 100, -1])
def test_cached_makes_a_damaged_file_anew(folder: Path, size: int) -> None:
    parser = Parser(x=[1, 2, 3])
    check(parser, asked=1)
    [file] = (folder / "tasks").iterdir()
    file.write_bytes(file.read_bytes()[:size])
    check(parser, asked=2)
    check(parser, asked=2)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_cached_never_gives_other_arrays_after_a_changed_byte(
    folder: Path, place: int, value: int
) -> None:
    """zip files have a checksum of each array."""
    parser = Parser(x=list(range(50)))
    cached(parser, "data")
    [file] = (folder / "tasks").iterdir()
    data = bytearray(file.read_bytes())
    data[place % len(data)] = value
    file.write_bytes(data)
    found = cached(parser, "data")
    assert found.keys() == {"x"} and np.array_equal(found["x"], parser.arrays["x"])


def test_cached_needs_no_folder_that_can_be_written(folder: Path) -> None:
    folder.write_text("a file in its place")
    parser = Parser(x=[1])
    check(parser, asked=1)
    check(parser, asked=2)


def test_cached_refuses_objects(folder: Path) -> None:
    with pytest.raises(TypeError, match="pairs holds objects"):
        cached(lambda: {"pairs": np.array([[1], "x"], dtype=object)}, "data")
    assert not folder.exists()


def test_cached_unpickles_nothing(folder: Path) -> None:
    parser = Parser(x=[1])
    cached(parser, "data")
    [file] = (folder / "tasks").iterdir()
    np.savez(file, x=np.array([{"evil": 1}], dtype=object))
    check(parser, asked=2)


def test_no_garbage_collection_ends_after_an_error() -> None:
    enabled = []
    with suppress(ValueError), no_garbage_collection():
        enabled.append(gc.isenabled())
        raise ValueError
    assert [*enabled, gc.isenabled()] == [False, True]


LEAVES = st.none() | st.integers() | st.text()
VALUES = st.recursive(LEAVES, lambda each: st.lists(each) | st.dictionaries(st.text(), each))


@given(VALUES)
def test_unpack_json_undoes_pack_json(value: object) -> None:
    assert unpack_json(pack_json(value)) == value


@given(st.lists(st.lists(st.integers(-(2**31), 2**31 - 1))))
def test_unpack_lists_undoes_pack_lists(lists: list[list[int]]) -> None:
    assert unpack_lists(pack_lists(lists)) == lists


def test_cached_returns_the_same_packed_values_from_the_cache() -> None:
    value = {"words": pack_json(("ä", "two")), "tokens": pack_lists([(2, 3), ()])}
    for found in (cached(lambda: value, "data"), cached(dict, "data")):
        assert unpack_json(found["words"]) == ["ä", "two"]
        assert unpack_lists(found["tokens"]) == [[2, 3], []]
