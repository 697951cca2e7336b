from pathlib import Path

import pytest

from graphut.plotting.figure import check_picture_path, new_figure, save_figure


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml")])
def test_save_figure_writes_what_the_ending_says(name: str, start: bytes, tmp_path: Path) -> None:
    save_figure(new_figure(1, 1), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_check_picture_path_refuses_suffixes_and_folders() -> None:
    with pytest.raises(ValueError, match=r"cannot draw into a.foo: 'foo' .*\.pdf, .*\.png"):
        check_picture_path("a.foo")
    with pytest.raises(FileNotFoundError, match="its folder does not exist"):
        check_picture_path("nowhere/a.png")


def test_figures_are_pictures_in_notebooks() -> None:
    formatters = pytest.importorskip("IPython").core.interactiveshell.DisplayFormatter()
    shown, _ = formatters.format(new_figure(1, 1))
    assert shown["image/png"].startswith(b"\x89PNG")
