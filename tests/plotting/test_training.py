from typing import Any

import numpy as np
import pytest

from graphut.plotting.training import draw_curve, training_curves
from tests.plotting.pictures import assert_nothing_is_cut_off

TITLES = ["loss", "accuracy of labels", "validation: sequence accuracy"]
STEPS = ["encoder steps", "decoder steps"]


@pytest.mark.parametrize("count", [1, 4, 300])
def test_training_curves_have_the_metrics(count: int) -> None:
    validation = {"sequence_accuracy": 0.9, "token_accuracy": 0.99}
    line: dict[str, Any] = {"accuracy": 0.5, "encoder_steps": 1.5, "decoder_steps": 2.9}
    numbers = range(1, count + 1)
    epochs = [{"epoch": n, "loss": 2 / n, "validation": validation, **line} for n in numbers]
    losses = [2 / n for n in numbers]
    values = [losses, *([x] * count for x in (0.5, 0.9, 1.5, 2.9))]
    assert training_curves(epochs) == dict(zip(TITLES + STEPS, values, strict=True))
    validation = {"accuracy": 0.5, "mae": 2.5, "r2": -0.5}
    curves = training_curves([{**epoch, "validation": validation} for epoch in epochs])
    assert [*curves] == ["loss", "validation: MAE", "validation: R2", *STEPS]
    del epochs[-1]["decoder_steps"]  # of a graph
    assert [*training_curves(epochs[-1:])] == [*TITLES, "steps"]


@pytest.mark.parametrize("title", ["loss", "validation: token accuracy"])
@pytest.mark.parametrize(("values", "bottom"), [([0.5], 0), ([0.5, -0.25, 0.75], -0.25)])
def test_draw_curve(title: str, values: list[float], bottom: float) -> None:
    figure = draw_curve(title, range(1, len(values) + 1), values)
    assert_nothing_is_cut_off(figure)
    [axes] = figure.axes
    [line] = axes.lines
    np.testing.assert_array_equal(line.get_xydata(), list(enumerate(values, 1)))
    assert line.get_zorder() > axes.spines["bottom"].get_zorder()
    assert axes.get_ylim()[0] == bottom  # the curve is not cut off
    assert axes.yaxis.get_major_formatter()(0.5).endswith("%") == ("accuracy" in title)
