from __future__ import annotations

import sys
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from graphut.plotting.figure import BLUE, ORANGE, WINE, new_figure

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
    with pytest.raises(ImportError, match=r"pip install graphut\[plot\]"):
        new_figure(5, 3)
