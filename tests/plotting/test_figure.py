from __future__ import annotations

import sys
from itertools import combinations, islice
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

from graphut.plotting.figure import (
    BLUE,
    ORANGE,
    WINE,
    arcs,
    check_picture_path,
    edge_style,
    line_styles,
    new_figure,
    save_figure,
    spacing,
)

# What linear red, green and blue become to whom a kind of cones is missing: Machado, Oliveira and
# Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", 2009.
SIGHT = {
    "usual": np.eye(3),
    "no-red-cones": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no-green-cones": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no-blue-cones": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def seen(colour: str, sight: str) -> np.ndarray:
    """A colour as it is perceived, in CIELAB, where 2.3 is a just noticeable difference."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = to_xyz @ np.clip(SIGHT[sight] @ linear, 0, 1) / [0.9505, 1.0, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_differ_to_readers_of_any_sight(sight: str) -> None:
    colours = [seen(colour, sight) for colour in (BLUE, ORANGE, WINE, "white")]
    for one, other in combinations(colours, 2):
        assert np.linalg.norm(one - other) > 30


def test_new_figure_has_its_size() -> None:
    assert new_figure(5, 3).get_size_inches().tolist() == [5, 3]


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


def test_spacing_is_that_of_columns_and_rows() -> None:
    figure = new_figure(4, 2)
    axes = figure.add_axes((0.0, 0.0, 0.5, 1.0))
    assert spacing(axes, 4, 1) == pytest.approx((0.5, 2.0))


def test_line_styles_go_on_without_end() -> None:
    first = list(islice(line_styles(), 32))
    assert len(set(first)) == 16 and first[16:] == first[:16]
    assert first[:3] == [(BLUE, "o", "-"), (ORANGE, "s", "--"), (WINE, "^", ":")]


def test_arcs_run_clockwise_from_source_to_destination() -> None:
    found = arcs(torch.tensor([0, 4]), torch.tensor([2, 1]))
    torch.testing.assert_close(found[:, 0], torch.tensor([[0.0, 0.0], [4.0, 0.0]]))
    torch.testing.assert_close(found[:, -1], torch.tensor([[2.0, 0.0], [1.0, 0.0]]))
    assert found[0, 16, 1] == 1.0 and found[1, 16, 1] == -1.5  # later ones above the line


def test_edge_style_is_thin_and_faint_for_many_lines() -> None:
    assert edge_style(0) == {"linewidths": 1.0, "alpha": 1.0}
    assert edge_style(100_000) == {"linewidths": 0.25, "alpha": 0.1}
