from __future__ import annotations

from pathlib import Path

import pytest

from graphut._files import cache_folder


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"GRAPHUT_CACHE": "/one", "XDG_CACHE_HOME": "/two"}, "/one"),
        ({"GRAPHUT_CACHE": "", "XDG_CACHE_HOME": "/two"}, "/two/graphut"),
        ({"XDG_CACHE_HOME": ""}, "/home/cat/.cache/graphut"),
        ({}, "/home/cat/.cache/graphut"),
    ],
)
def test_the_first_variable_that_says_something_decides(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GRAPHUT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/cat")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)
