from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from graphut.plotting import draw_attention
from tests.helpers import refuses
from tests.plotting.pictures import assert_nothing_is_cut_off


def make_weights(steps: int, heads: int, queries: int, keys: int) -> Tensor:
    """Weights that sum to one; after the first step the first query has halted."""
    torch.manual_seed(0)
    weights = torch.randn(steps, heads, queries, keys).softmax(-1)
    weights[1:, :, 0] = 0.0
    return weights


def lines_of(axes: Axes) -> np.ndarray:
    """The weights that lines show, `(queries, keys)`: how opaque they are."""
    [lines] = axes.collections
    drawn = {
        (round(path.vertices[1][0]), round(path.vertices[0][0])): colour[3]
        for path, colour in zip(lines.get_paths(), lines.get_colors(), strict=True)
    }
    queries, keys = (max(ends) + 1 for ends in zip(*drawn, strict=True))
    return np.array([[drawn.get((i, j), 0.0) for j in range(keys)] for i in range(queries)])


def names_of(axes: Axes) -> list[list[str]]:
    """The names above and below lines."""
    [above] = axes.child_axes
    return [[label.get_text() for label in side.get_xticklabels()] for side in (above, axes)]


def test_draw_attention_of_a_short_sentence_has_lines_as_dark_as_weights() -> None:
    weights = make_weights(2, 3, 4, 5)
    figure = draw_attention(weights, list("abcd"), list("vwxyz"))
    assert len(figure.axes) == 6
    for panel, axes in enumerate(figure.axes):
        np.testing.assert_allclose(lines_of(axes), weights[panel // 3, panel % 3], atol=1e-6)
        assert names_of(axes) == [list("abcd"), list("vwxyz")]
    assert [axes.get_title() for axes in figure.axes[:3]] == ["head 1", "head 2", "head 3"]
    assert [axes.get_ylabel() for axes in figure.axes[::3]] == ["step 1", "step 2"]
    first = [figure.axes[panel].child_axes[0].get_xticklabels()[0] for panel in (0, 3)]
    assert [label.get_color() for label in first] == ["black", "0.75"]  # who has halted is grey


def test_draw_attention_takes_the_weights_of_attention_without_softmax() -> None:
    weights = torch.tensor([[[[0.5, -0.25], [torch.nan, 3.0]]]])
    [axes] = draw_attention(weights, list("ab"), list("cd")).axes
    np.testing.assert_allclose(lines_of(axes), [[0.5, 0.25], [0.0, 1.0]])


def test_draw_attention_of_a_long_sentence_has_cells_with_the_weights() -> None:
    weights = make_weights(2, 2, 13, 9)
    figure = draw_attention(weights, ["q"] * 13, ["k"] * 9)
    images = [np.ma.filled(axes.images[0].get_array(), 0.0) for axes in figure.axes[:4]]
    np.testing.assert_allclose(images, weights.view(4, 13, 9), atol=1e-6)
    [bar] = figure.axes[4:]
    assert bar.get_label() == "<colorbar>"


def test_draw_attention_draws_on_a_given_part_of_a_figure() -> None:
    left, right = Figure(layout="constrained").subfigures(1, 2)
    assert draw_attention(make_weights(1, 1, 2, 2), ["$a", "$b"], figure=right) is right
    assert not left.axes and len(right.axes) == 1
    assert not any(label.get_parse_math() for label in right.axes[0].get_xticklabels())


@pytest.mark.parametrize(
    ("shape", "letters"),
    [
        ((1, 1, 1, 1), 40), ((6, 4, 7, 8), 5), ((3, 4, 3, 3), 40), ((1, 4, 12, 12), 8),
        ((1, 2, 13, 13), 40), ((1, 2, 60, 200), 8),
    ],
    ids=str,
)  # fmt: skip
def test_draw_attention_cuts_nothing_off(shape: tuple[int, int, int, int], letters: int) -> None:
    words = [f"{i:x>{letters}}" if i % 2 else "a" for i in range(200)]
    weights = make_weights(*shape)
    assert_nothing_is_cut_off(draw_attention(weights, words[: shape[2]], words[: shape[3]]))


def test_draw_attention_refuses_what_does_not_fit() -> None:
    def check(words: str, weights: Tensor, queries: Any) -> None:
        refuses(words, draw_attention, weights, queries)

    check(r"must be \(steps, heads, 1, 1\) .* got \(1, 1, 2, 2\)", torch.ones(1, 1, 2, 2), ["a"])
    check(r"must be \(steps, heads, 2, 2\)", torch.ones(2, 2), ["a", "b"])
    check("40 steps of 8 heads are more than 128 panels", torch.ones(40, 8, 1, 1), ["a"])
