from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from matplotlib.axes import Axes

from graphut.plotting.figure import (
    check_picture_path,
    draw_cells,
    name_ticks,
    new_figure,
    save_figure,
)


def test_new_figure_without_matplotlib_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "graphut\[plot\]"'):
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


VALUES = torch.tensor([[0.1, 0.75], [torch.nan, 1.0]])


def make_axes(width: float, height: float = 2.0) -> Axes:
    return new_figure(width, height).add_subplot()


def test_draw_cells_writes_the_numbers_that_fit() -> None:
    axes = make_axes(4)
    draw_cells(axes, VALUES)
    written = {tuple(map(int, text.get_position())): text.get_text() for text in axes.texts}
    assert written == {(0, 0): "0.10", (1, 0): "0.75", (1, 1): "1.00"}
    for axes in (make_axes(0.5), make_axes(4, 0.2)):
        draw_cells(axes, VALUES)
        assert not axes.texts
    axes = make_axes(4)
    draw_cells(axes, VALUES, numbers=False)
    assert not axes.texts


def ticks(axes: Axes, side: str) -> list[str]:
    axis = axes.xaxis if side == "x" else axes.yaxis
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize("side", ["x", "y"])
def test_name_ticks_writes_every_name_where_they_fit(side: str) -> None:
    axes = make_axes(4)
    axis = axes.xaxis if side == "x" else axes.yaxis
    name_ticks(axis, ["to", "$x$", "<eos>"], 0.5)
    assert ticks(axes, side) == ["to", "$x$", "<eos>"]
    labels = axis.get_ticklabels()
    assert {(label.get_rotation(), label.get_size()) for label in labels} == {(0.0, 9.0)}
    assert not any(label.get_parse_math() for label in labels)  # a dollar stays a dollar
