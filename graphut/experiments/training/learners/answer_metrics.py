"""Metrics of classes, of several labels and of values, as in scikit-learn."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
ANSWER_METRICS = ("macro_f1", "auc", "label_accuracy", "mae", "r2")


def answer_metrics(target: str, predicted: Column, correct: Column) -> dict[str, float | None]:
    """Return a dictionary of metrics for the target "class", "labels" or "values".

    `predicted` are logits or values, `(A, K)`, with a column for each class, label or number.
    `correct` are the classes, `(A,)`, or labels or values, `(A, K)`. A metric is None if it is not
    defined for the target, or for these data, such as the AUC of a single class.
    """
    metrics: dict[str, float | None] = dict.fromkeys(ANSWER_METRICS)
    if target == "values":
        error = float(np.abs(predicted - correct).mean())
        return metrics | {"mae": error, "r2": r2(predicted, correct)}
    if target == "labels":
        is_predicted, is_correct = predicted > 0, correct > 0
        metrics["label_accuracy"] = float((is_predicted == is_correct).mean())
        macro = macro_f1(is_predicted, is_correct)
        return metrics | {"macro_f1": macro, "auc": auc(predicted, is_correct)}
    classes = np.arange(predicted.shape[1])
    is_predicted, is_correct = (x[:, None] == classes for x in (predicted.argmax(1), correct))
    present = is_predicted.any(0) | is_correct.any(0)
    macro = macro_f1(is_predicted[:, present], is_correct[:, present])
    shares, first = _softmax(predicted), int(len(classes) == 2)
    return metrics | {"macro_f1": macro, "auc": auc(shares[:, first:], is_correct[:, first:])}


def _softmax(logits: Column) -> Column:
    shares = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
    return np.asarray(shares / shares.sum(1, keepdims=True))


def macro_f1(predicted: Column, correct: Column) -> float:
    """Return the F1 score of bool predictions, averaged over columns (classes, labels)."""
    hits, totals = (predicted & correct).sum(0), predicted.sum(0) + correct.sum(0)
    return float((2 * hits / np.maximum(totals, 1)).mean())


def auc(scores: Column, correct: Column) -> float | None:
    """Return the mean ROC AUC of the columns with both True and False; None if there are none."""
    ones = correct.sum(0)
    has_both = (ones > 0) & (ones < len(correct))
    if not has_both.any():
        return None
    from scipy.stats import rankdata  # a fifth of the start of every command

    ones, ranks = ones[has_both], rankdata(scores[:, has_both], axis=0)
    above = (ranks * correct[:, has_both]).sum(0) - ones * (ones + 1) / 2
    return float((above / (ones * (len(correct) - ones))).mean())


def r2(predicted: Column, correct: Column) -> float | None:
    """Return R2, averaged over columns; `None` if a column of `correct` is constant."""
    total = np.square(correct - correct.mean(0)).sum(0)
    if not total.all():
        return None
    return float((1 - np.square(predicted - correct).sum(0) / total).mean())
