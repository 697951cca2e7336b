from __future__ import annotations

import sys
from pathlib import Path

import pytest

from graphut.plotting.figure import check_picture_path, new_figure, save_figure


def test_new_figure_without_matplotlib_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        new_figure(5, 3)


@pytest.mark.parametrize("name", ["picture", "picture.foo", "png"])
def test_check_picture_path_says_which_endings_there_are(name: str) -> None:
    with pytest.raises(ValueError, match=rf"cannot draw into {name}: .*\.pdf, .*\.png"):
        check_picture_path(name)


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml")])
def test_save_figure_writes_what_the_ending_says(name: str, start: bytes, tmp_path: Path) -> None:
    save_figure(new_figure(1, 1), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_save_figure_says_what_to_do_where_it_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="its folder does not exist"):
        save_figure(new_figure(1, 1), tmp_path / "nowhere" / "a.png")
