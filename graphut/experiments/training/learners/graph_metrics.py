"""Metrics of predicted classes, labels and values: macro F1, ROC AUC, MAE and R2."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import rankdata

Column = NDArray[Any]

ANSWER_METRICS = ("macro_f1", "auc", "label_accuracy", "mae", "r2")


def answer_metrics(target: str, given: Column, wanted: Column) -> dict[str, float | None]:
    """Return a dictionary of metrics for the target "class", "labels" or "values".

    The target is one class, K labels (yes or no) or K numbers. `given` are predictions: logits or
    values, `(A, K)`, with a column for each class, label or number. `wanted` are the correct
    classes, `(A,)`, or labels or values, `(A, K)`. A metric is None if it is not defined for the
    target, or for these data, such as the AUC if all examples have the same class.
    """
    found: dict[str, float | None] = dict.fromkeys(ANSWER_METRICS)
    if target == "values":
        return found | {"mae": float(np.abs(given - wanted).mean()), "r2": r2(given, wanted)}
    if target == "labels":
        is_given, is_wanted = given > 0, wanted > 0
        found["label_accuracy"] = float((is_given == is_wanted).mean())
        return found | {"macro_f1": macro_f1(is_given, is_wanted), "auc": auc(given, is_wanted)}
    classes = np.arange(given.shape[1])
    is_given, is_wanted = (x[:, None] == classes for x in (given.argmax(1), wanted))
    shares = softmax(given.astype(np.float64), axis=1)
    if len(classes) == 2:
        shares, only = shares[:, 1:], is_wanted[:, 1:]
    else:
        only = is_wanted
    present = is_given.any(0) | is_wanted.any(0)
    macro = macro_f1(is_given[:, present], is_wanted[:, present])
    return found | {"macro_f1": macro, "auc": auc(shares, only)}


def macro_f1(given: Column, wanted: Column) -> float:
    """Return the F1 score of bool predictions `given`, averaged over columns (classes, labels)."""
    both, either = (given & wanted).sum(0), given.sum(0) + wanted.sum(0)
    return float((2 * both / np.maximum(either, 1)).mean())


def auc(scores: Column, wanted: Column) -> float | None:
    """Return the mean ROC AUC of the columns of `wanted` with both True and False; None if none."""
    ones = wanted.sum(0)
    both = (ones > 0) & (ones < len(wanted))
    if not both.any():
        return None
    ones, ranks = ones[both], rankdata(scores[:, both], axis=0)
    above = (ranks * wanted[:, both]).sum(0) - ones * (ones + 1) / 2
    return float((above / (ones * (len(wanted) - ones))).mean())


def r2(given: Column, wanted: Column) -> float | None:
    """Return R2 of `given`, averaged over columns; `None` if a column of `wanted` is constant."""
    total = np.square(wanted - wanted.mean(0)).sum(0)
    if not total.all():
        return None
    return float((1 - np.square(given - wanted).sum(0) / total).mean())
