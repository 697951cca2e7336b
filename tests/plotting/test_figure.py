from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from graphut.plotting.figure import (
    arcs,
    check_picture_path,
    edge_style,
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


def test_arcs_run_clockwise_from_source_to_destination() -> None:
    found = arcs(torch.tensor([0, 4]), torch.tensor([2, 1]))
    torch.testing.assert_close(found[:, 0], torch.tensor([[0.0, 0.0], [4.0, 0.0]]))
    torch.testing.assert_close(found[:, -1], torch.tensor([[2.0, 0.0], [1.0, 0.0]]))
    assert found[0, 16, 1] == 1.0 and found[1, 16, 1] == -1.5  # later ones above the line


def test_edge_style_is_thin_and_faint_for_many_lines() -> None:
    assert edge_style(0) == {"linewidths": 1.0, "alpha": 1.0}
    assert edge_style(100_000) == {"linewidths": 0.25, "alpha": 0.1}
