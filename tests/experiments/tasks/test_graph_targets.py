from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphut.experiments.tasks.graph_targets import class_weights, read_labels


@pytest.mark.parametrize(
    ("values", "target", "expected"),
    [
        (["a b", "", 3.0, -1, "NaN"], "class", ["a_b", None, "3", None, None]),
        ([[1, 0], None, "0,1"], "labels", [[1, 0], [np.nan] * 2, [0, 1]]),
        ([-1, "", float("nan"), "2.5"], "values", [[-1], [np.nan], [np.nan], [2.5]]),
        ([None, "", []], "values", np.zeros((3, 0))),
        (["", None], "class", [None, None]),
    ],
)
def test_read_labels(values: list[Any], target: str, expected: Any) -> None:
    labels: Any = read_labels(values, target)
    if target == "class":
        assert labels == expected
    else:
        np.testing.assert_array_equal(labels, np.array(expected, np.float32))


@pytest.mark.parametrize(
    ("values", "target", "message"),
    [
        (["1,,0"], "labels", "a label is '1,,0'; with target 'labels' it is 0 or 1 for each"),
        ([1e39], "values", r"a label is 1e\+39; with target 'values' it is finite numbers"),
        ([1, 2], "labels", "a label is 2; with target 'labels' it is 0 or 1 for each label"),
        (["x"], "values", "a label is 'x'; with target 'values' it is finite numbers"),
        ([float("inf")], "values", "a label is inf"),
        ([[1, 2], [1]], "values", r"labels have 1 and 2 numbers \(label number 1 has 1\)"),
        ([0.5], "class", "0.5, a real number, .*: pass --target values"),
        ([[0, 1]], "class", r"a label must be .* --target labels or values; got \[0, 1\]"),
    ],
)
def test_read_labels_refuses(values: list[Any], target: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_labels(values, target)


def test_class_weights_balance_classes_and_labels() -> None:
    labels = np.array([0, 2, 2, 2, 0, 2])
    weights = class_weights(labels, "balanced", "abc")
    assert weights[labels == 0].sum() == pytest.approx(weights[labels == 2].sum())
    assert weights.mean() == pytest.approx(1)
    listed = class_weights(labels, "1, 5, 2", "abc")
    assert (listed / listed[0]).tolist() == [1, 2, 2, 2, 1, 2]
    several = np.array([[1, 0], [0, 0], [0, 0], [1, 0]], np.float32)
    rows = class_weights(several, "balanced", "ab")
    assert rows[:, 0].tolist() == [1, 1, 1, 1] and rows.mean(0).tolist() == [1, 1]
    for text, kind in (("1,2", labels), ("1,0,1", labels), ("x", labels), ("1,1", several)):
        with pytest.raises(ValueError, match=f"class_weights must be 'balanced'.*; got '{text}'"):
            class_weights(kind, text, "abc")
