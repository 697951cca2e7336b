from typing import Any

import numpy as np
import pytest
import torch

from graphut.plotting import draw_ponder
from tests.helpers import refuses
from tests.plotting.pictures import assert_nothing_is_cut_off

NAN = float("nan")
HALTING = torch.tensor([[1.0, 0.25, 0.5], [NAN, 0.5, 0.75], [NAN, 0.25, NAN]])
STEPS = torch.tensor([1, 3, 2])
FACTS = ["Mary went to the kitchen.", "John took the milk.", "Where is Mary?"]


def cells_of(figure: Any) -> np.ndarray:
    return np.ma.filled(figure.axes[0].images[0].get_array(), np.nan)


def bold(figure: Any) -> dict[tuple[int, int], str]:
    """The numbers of steps, by their places."""
    texts = [text for text in figure.axes[0].texts if text.get_weight() == "bold"]
    return {tuple(map(int, text.get_position())): text.get_text() for text in texts}


@pytest.mark.parametrize("names", [["a", "b", "c"], FACTS], ids=["letters", "facts"])
def test_draw_ponder_draws_the_numbers_of_the_model(names: list[str]) -> None:
    places = [(0, 1), (1, 3), (2, 2)]  # after the last step
    figure = draw_ponder(names, STEPS, HALTING)
    np.testing.assert_array_equal(cells_of(figure), HALTING)
    assert bold(figure) == dict(zip(places, "132", strict=True))
    written = {text.get_text() for text in figure.axes[0].texts if text.get_weight() != "bold"}
    assert written == {"1.00", "0.25", "0.50", "0.75"}
    assert [label.get_text() for label in figure.axes[0].xaxis.get_ticklabels()] == names
    figure = draw_ponder(names, STEPS, HALTING, stopped=torch.tensor([False, True, False]))
    assert bold(figure) == dict(zip(places, ["1", "3+", "2"], strict=True))
    assert "+ stopped by the limit" in figure.axes[0].get_xlabel()


def test_draw_ponder_without_probabilities_shades_by_steps() -> None:
    figure = draw_ponder(["a", "b", "c"], [1, 3, 2])
    third = 1 / 3
    expected = [[third, 1, 2 * third], [NAN, 1, 2 * third], [NAN, 1, NAN]]
    np.testing.assert_allclose(cells_of(figure), expected, rtol=1e-6)
    assert len(figure.axes) == 1  # no bar explains what no cell shows


@pytest.mark.parametrize(
    ("names", "most"),
    [(["a"], 1), (["<eos>"] * 150, 150), (FACTS, 3), (["a fact " * 30] * 40, 6)],
    ids=["one", "deep", "facts", "many facts"],
)
def test_draw_ponder_cuts_nothing_off(names: list[str], most: int) -> None:
    steps = 1 + torch.arange(len(names)) % most
    assert_nothing_is_cut_off(draw_ponder(names, steps, torch.rand(most, len(names))))


def test_draw_ponder_refuses_what_does_not_fit() -> None:
    refuses(r"1 or more names; got \(0,\)", draw_ponder, [], [])
    refuses(r"1 or more names; got \(2,\)", draw_ponder, ["a"], [1, 2])
    stopped = torch.tensor([True])
    refuses(r"got \(2,\) and \(1,\)", draw_ponder, ["a", "b"], [1, 2], stopped=stopped)
    refuses(r"halting must be \(3 or more, 2\)", draw_ponder, ["a", "b"], [1, 3], torch.rand(2, 2))
    refuses(r"got \(2, 3\)", draw_ponder, ["a", "b"], [1, 2], torch.rand(2, 3))
