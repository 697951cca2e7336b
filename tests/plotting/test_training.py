from typing import Any

import numpy as np
import pytest

from graphut.plotting.figure import new_figure
from graphut.plotting.training import PANEL, training_panels
from tests.plotting.pictures import assert_nothing_is_cut_off


def epochs(count: int, **changed: Any) -> list[dict[str, Any]]:
    validation = {"sequence_accuracy": 0.9, "token_accuracy": 0.99}
    steps = {"encoder_steps": 1.5, "decoder_steps": 2.9}
    return [
        {"epoch": n, "loss": 2 / n, "accuracy": 0.5, **steps, "validation": validation, **changed}
        for n in range(1, count + 1)
    ]


STEPS = ["encoder steps", "decoder steps"]
TITLES = ["loss", "accuracy of labels", "validation: sequence accuracy", *STEPS]


def axes_of(lines: list[dict[str, Any]], title: str) -> Any:
    """Draw a panel, and check that all of it is inside the figure."""
    figure = new_figure(*PANEL)
    training_panels(lines)[title](figure.add_subplot())
    assert_nothing_is_cut_off(figure)
    return figure.axes[0]


@pytest.mark.parametrize("count", [1, 4, 300])
def test_training_panels_draw_the_metrics(count: int) -> None:
    lines = epochs(count)
    assert [*training_panels(lines)] == TITLES
    values = [[2 / n for n in range(1, count + 1)], *([x] * count for x in (0.5, 0.9, 1.5, 2.9))]
    for title, expected in zip(TITLES, values, strict=True):
        axes = axes_of(lines, title)
        [line] = axes.lines
        np.testing.assert_array_equal(line.get_xydata(), list(enumerate(expected, 1)))
        assert line.get_zorder() > axes.spines["bottom"].get_zorder()
        assert axes.yaxis.get_major_formatter()(0.5).endswith("%") == ("accuracy" in title)


def test_training_panels_draw_the_distribution_of_steps_of_a_run_that_halts() -> None:
    lines = epochs(2)
    for line, shares in zip(lines, ([1.0, 0.25], [1.0, 0.5, 0.1]), strict=True):
        line["active"] = {"encoder": [1.0, 1.0], "decoder": shares}
    title = "decoder: share of nodes by steps"
    assert [*training_panels(lines)] == [*TITLES, title]
    [image] = axes_of(lines, title).images
    expected = [[0.75, 0.5], [0.25, 0.4], [0.0, 0.1]]  # a row for each number of steps
    np.testing.assert_allclose(image.get_array(), expected, atol=1e-12)
    assert list(image.get_extent()) == [0.5, 2.5, 0.5, 3.5]


def test_training_panels_of_a_model_of_values() -> None:
    lines = epochs(2, validation={"accuracy": 0.5, "mae": 2.5, "r2": -0.5})
    assert [*training_panels(lines)] == ["loss", "validation: MAE", "validation: R2", *STEPS]
    assert axes_of(lines, "validation: R2").get_ylim()[0] == -0.5  # the curve is not cut off
