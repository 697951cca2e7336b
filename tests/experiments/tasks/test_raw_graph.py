from typing import Any

import numpy as np
import pytest

from graphut.experiments.tasks.raw_graph import read_labels
from tests.helpers import refuses


@pytest.mark.parametrize(
    ("values", "target", "expected"),
    [
        (["a b", "", 3.0, -1, "NaN"], "class", ["a_b", None, "3", None, None]),
        ([[1, 0], None, "0,1"], "values", [[1, 0], [np.nan] * 2, [0, 1]]),
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


def test_read_labels_refuses() -> None:
    def check(words: str, values: list[Any], target: str) -> None:
        refuses(words, read_labels, values, target)

    check("a label is '1,,0', no number: pass --target class", ["", "1,,0"], "values")
    check(r"number 0 has \[1e\+39\] in `label`; expected finite numbers", [1e39], "values")
    check("number 1 has \\[1\\] in `label`: give all of them as many", [[1, 2], [1]], "values")
    check("0.5, a real number, .*: pass --target values", [0.5], "class")
    check(r"a label must be .* --target values; got \[0, 1\]", [[0, 1]], "class")
