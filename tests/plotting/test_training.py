from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from graphut.plotting import draw_training
from tests.helpers import refuses
from tests.plotting.pictures import assert_nothing_is_cut_off


def epochs(count: int) -> list[dict[str, Any]]:
    validation = {"sequence_accuracy": 0.9, "token_accuracy": 0.99}
    common = {"decoder_steps": 2.9, "validation": validation}
    return [
        {
            "epoch": n,
            "loss": 2 / n,
            "accuracy": 1 - 0.5 / n,
            "encoder_steps": 1.5 + 0.1 / n,
            **common,
        }
        for n in range(1, count + 1)
    ]


def panel(figure: Any, title: str) -> Axes:
    [axes] = [axes for axes in figure.axes if axes.get_title() == title]
    return axes


STEPS = ["encoder steps", "decoder steps"]
TITLES = ["loss", "accuracy of labels", "validation: sequence accuracy", *STEPS]


def test_draw_training_draws_the_metrics() -> None:
    lines = epochs(4)
    figure = draw_training({"sort": lines})
    assert [axes.get_title() for axes in figure.axes] == TITLES
    for title, name in zip(TITLES, ["loss", "accuracy", "", "encoder_steps", "decoder_steps"],
                           strict=True):  # fmt: skip
        [line] = panel(figure, title).lines
        expected = [epoch[name] if name else 0.9 for epoch in lines]
        np.testing.assert_array_equal(line.get_xydata(), list(enumerate(expected, 1)))
        assert line.get_zorder() > panel(figure, title).spines["bottom"].get_zorder()
    assert not figure.legends
    ticks = panel(figure, "validation: sequence accuracy").yaxis.get_major_formatter()
    assert ticks(0.5).startswith("50") and ticks(0.5).endswith("%")


def test_draw_training_draws_the_distribution_of_steps_of_a_run_that_halts() -> None:
    active = [
        {"encoder": [1.0, 1.0], "decoder": shares} for shares in ([1.0, 0.25], [1.0, 0.5, 0.1])
    ]
    lines = [{**line, "active": each} for line, each in zip(epochs(2), active, strict=True)]
    figure = draw_training({"sort": lines})
    image = panel(figure, "decoder: share of nodes by steps").images[0]
    expected = [[0.75, 0.5], [0.25, 0.4], [0.0, 0.1]]  # a row for each number of steps
    np.testing.assert_allclose(image.get_array(), expected, atol=1e-12)
    assert list(image.get_extent()) == [0.5, 2.5, 0.5, 3.5]
    assert len(figure.axes) == len(TITLES) + 2  # the heat map and its bar
    assert_nothing_is_cut_off(figure)


def test_draw_training_of_a_model_of_values() -> None:
    found = {"accuracy": 0.5, "mae": 2.5, "r2": -0.5}
    figure = draw_training({"values": [{**line, "validation": found} for line in epochs(2)]})
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["loss", "validation: MAE", "validation: R2", *STEPS]
    assert panel(figure, "validation: R2").get_ylim()[0] == -0.5  # the curve is not cut off


def test_draw_training_compares_runs_of_any_version_and_model() -> None:
    old = epochs(3)
    other = [{k: v for k, v in line.items() if k != "encoder_steps"} for line in old]
    figure = draw_training({"_new": epochs(2), "$5_$": old, "other": other})
    assert [len(axes.lines) for axes in figure.axes] == [3, 3, 3, 2, 3]
    looks = {(line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines}
    assert len(looks) == 3
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [" _new", "$5_$", "other"]


@pytest.mark.parametrize("count", [1, 300])
def test_draw_training_cuts_nothing_off(count: int) -> None:
    for letters in (5, 300):
        runs = {f"{n}: {'a' * letters}": epochs(count) for n in range(4)}
        assert_nothing_is_cut_off(draw_training(runs))


def test_draw_training_refuses_what_has_not_begun() -> None:
    refuses("runs is empty", draw_training, {})
    refuses(r"'a'.* no completed epoch", draw_training, {"a": []})
