"""Labels as users write them: classes, several labels at once, or values."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphut.models.graph_columns import Column, as_list, is_missing, name_of, row_of_numbers

Target = Literal["class", "labels", "values"]
Labels = list[str | None] | NDArray[np.float32]
"""Names of classes, or `(N, K)` numbers; None or NaN where a label is missing; K = 0 if all are."""

_LARGEST = 1e30  # finite in float32


def read_labels(column: Column, target: str | None) -> Labels | None:
    """Return the labels of nodes or graphs; None if `target` is None.

    With the target "class" the labels are names; with "labels" (zeros and ones) or "values" they
    are rows of numbers. Raise `ValueError` if a label has another form.
    """
    if target is None:
        return None
    if isinstance(column, np.ndarray) and column.shape[1:] == (1,):
        column = column[:, 0]
    values = as_list(column)
    if target == "class":
        return [_class(value) for value in values]
    row_of = {
        index: _numbers(value, target)
        for index, value in enumerate(values)
        if not is_missing(value)
    }
    widths = {len(row): index for index, row in row_of.items()}
    if len(widths) > 1:
        raise ValueError(
            f"labels have {' and '.join(map(str, sorted(widths)))} numbers (label number "
            f"{max(widths.values())} has {len(row_of[max(widths.values())])}): give all the same"
        )
    rows = np.full((len(values), max(widths, default=0)), np.nan, np.float32)
    if row_of:
        rows[[*row_of]] = [*row_of.values()]
    return rows


def known_labels(labels: Labels | None) -> NDArray[np.bool_]:
    """Return a mask of labels: False for None and for rows of NaN."""
    if isinstance(labels, np.ndarray):
        return np.asarray(np.isfinite(labels).any(1))
    return np.array([label is not None for label in labels or ()], bool)


def _numbers(value: Any, target: str) -> list[float]:
    row = row_of_numbers(value)
    known = (0.0, 1.0) if target == "labels" else row or ()
    if row is None or not all(abs(x) < _LARGEST and x in known for x in row):
        form = "0 or 1 for each label" if target == "labels" else "finite numbers"
        raise ValueError(f"a label is {value!r}; with target {target!r} it is {form}")
    return row


def _class(value: Any) -> str | None:
    """Return the name of a class, or None if missing; raise `ValueError` for a real number."""
    remedy = ", or pass --target labels or values"
    name, numbers = name_of(value, "a label", remedy), row_of_numbers(value)
    if name and any(isfinite(x) and not x.is_integer() for x in numbers or ()):
        raise ValueError(
            f"a label is {value}, a real number, but the target is a class: pass --target values "
            "to predict numbers, or give each node or graph the name or number of a class"
        )
    return name


def class_weights(labels: NDArray[Any], text: str, names: Sequence[str]) -> NDArray[np.float32]:
    """Return the weight of each training label in the loss, with a mean of 1 over the labels.

    `labels` are `(N,)` classes, or `(N, K)` zeros and ones. The `text` is "balanced", which gives
    all classes the same total weight, or has a weight for each of the `names`, such as "1,5".
    """
    if text != "balanced":
        factors = row_of_numbers(text)
        if labels.ndim > 1:
            raise ValueError(f"class_weights must be 'balanced' for several labels; got {text!r}")
        if (
            factors is None
            or len(factors) != len(names)
            or not all(0 < x < np.inf for x in factors)
        ):
            raise ValueError(
                f"class_weights must be 'balanced', or a positive number for each of "
                f"{', '.join(names)}; got {text!r}"
            )
        weights = np.array(factors)[labels]
    elif labels.ndim == 1:
        weights = 1 / np.bincount(labels, minlength=len(names))[labels]
    else:
        ones = labels.sum(0)
        weights = np.where(
            labels == 1, 1 / np.maximum(ones, 1), 1 / np.maximum(len(labels) - ones, 1)
        )
    return (weights / weights.mean(0)).astype(np.float32)
