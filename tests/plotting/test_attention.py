import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor

from graphut.attention import layout_from_edges
from graphut.nn.ponder import AttentionRecord
from graphut.plotting import draw_attention
from tests.helpers import refuses
from tests.plotting.pictures import assert_nothing_is_cut_off


def make_weights(steps: int, heads: int, queries: int, keys: int) -> Tensor:
    """Weights that sum to one; after the first step the first query has halted."""
    torch.manual_seed(0)
    weights = torch.randn(steps, heads, queries, keys).softmax(-1)
    weights[1:, :, 0] = 0.0
    return weights


def test_draw_attention_has_cells_with_the_weights() -> None:
    weights = make_weights(2, 3, 4, 5)
    figure = draw_attention(weights, list("abcd"), list("vwxyz"))
    *panels, bar = figure.axes
    images = [np.ma.filled(axes.images[0].get_array(), 0.0) for axes in panels]
    np.testing.assert_allclose(images, weights.view(6, 4, 5), atol=1e-6)
    assert bar.get_label() == "<colorbar>"
    left, below = panels[0].get_yticklabels(), panels[3].get_xticklabels()
    assert ["".join(x.get_text() for x in labels) for labels in (left, below)] == ["abcd", "vwxyz"]
    assert [axes.get_title() for axes in panels[:3]] == ["head 1", "head 2", "head 3"]
    assert [axes.get_ylabel() for axes in panels[::3]] == ["step 1", "step 2"]


def test_draw_attention_reads_a_record() -> None:
    edges = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1])
    layout = layout_from_edges(*edges, num_src=2, num_dst=2)
    weights = torch.tensor([[0.3], [0.7], [1.0]])
    [image] = draw_attention(AttentionRecord(layout, [weights]), ["a", "b"]).axes[0].images
    np.testing.assert_allclose(np.ma.filled(image.get_array(), 0), [[0.3, 0.7], [0, 1]])


def test_draw_attention_draws_on_a_given_part_of_a_figure() -> None:
    left, right = Figure(layout="constrained").subfigures(1, 2)
    assert draw_attention(make_weights(1, 1, 2, 2), ["$a", "$b"], figure=right) is right
    assert not left.axes and len(right.axes) == 2
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
