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
    ends = [path.vertices[:, 0].round().astype(int) for path in lines.get_paths()]
    shown = np.zeros(np.max(ends, 0)[::-1] + 1)
    for (key, query), colour in zip(ends, lines.get_colors(), strict=True):
        shown[query, key] = colour[3]
    return shown


def test_draw_attention_of_a_short_sentence_has_lines_as_dark_as_weights() -> None:
    weights = make_weights(2, 3, 4, 5)
    figure = draw_attention(weights, list("abcd"), list("vwxyz"))
    assert len(figure.axes) == 6
    for panel, axes in enumerate(figure.axes):
        np.testing.assert_allclose(lines_of(axes), weights[panel // 3, panel % 3], atol=1e-6)
        names = [side.get_xticklabels() for side in (axes.child_axes[0], axes)]
        assert ["".join(x.get_text() for x in labels) for labels in names] == ["abcd", "vwxyz"]
        assert names[0][0].get_color() == ("black" if panel < 3 else "0.75")  # halted: grey
    assert [axes.get_title() for axes in figure.axes[:3]] == ["head 1", "head 2", "head 3"]
    assert [axes.get_ylabel() for axes in figure.axes[::3]] == ["step 1", "step 2"]


def test_draw_attention_takes_the_weights_of_attention_without_softmax() -> None:
    weights = torch.tensor([[[[0.5, -0.25], [torch.nan, 3.0]]]])
    [axes] = draw_attention(weights, list("ab"), list("cd")).axes
    np.testing.assert_allclose(lines_of(axes), [[0.5, 0.25], [0.0, 1.0]])


def test_draw_attention_of_a_long_sentence_has_cells_with_the_weights() -> None:
    weights = make_weights(2, 2, 13, 9)
    figure = draw_attention(weights, ["q"] * 13, ["k"] * 9)
    images = [np.ma.filled(axes.images[0].get_array(), 0.0) for axes in figure.axes[:4]]
    np.testing.assert_allclose(images, weights.view(4, 13, 9), atol=1e-6)
    assert [axes.get_label() for axes in figure.axes[4:]] == ["<colorbar>"]


def test_draw_attention_draws_on_a_given_part_of_a_figure() -> None:
    left, right = Figure(layout="constrained").subfigures(1, 2)
    assert draw_attention(make_weights(1, 1, 2, 2), ["$a", "$b"], figure=right) is right
    assert not left.axes and len(right.axes) == 1
    assert not any(label.get_parse_math() for label in right.axes[0].get_xticklabels())


@pytest.mark.parametrize(
    ("shape", "letters"),
    [((1, 1, 1, 1), 40), ((3, 4, 7, 8), 5), ((1, 4, 12, 12), 8), ((1, 2, 60, 200), 8)],
    ids=str,
)
def test_draw_attention_cuts_nothing_off(shape: tuple[int, int, int, int], letters: int) -> None:
    words = [f"{i:x>{letters}}" if i % 2 else "a" for i in range(200)]
    weights = make_weights(*shape)
    assert_nothing_is_cut_off(draw_attention(weights, words[: shape[2]], words[: shape[3]]))


def test_draw_attention_refuses_what_does_not_fit() -> None:
    ones, message = torch.ones(1, 1, 2, 2), r"must be \(steps, heads, 1, 1\) .* got \(1, 1, 2, 2\)"
    refuses(message, draw_attention, ones, ["a"])
    refuses(r"must be \(steps, heads, 2, 2\)", draw_attention, ones[0, 0], ["a", "b"])
    message = "40 steps of 8 heads are more than 128 panels"
    refuses(message, draw_attention, torch.ones(40, 8, 1, 1), ["a"])
