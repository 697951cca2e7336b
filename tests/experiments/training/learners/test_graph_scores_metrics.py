import numpy as np
import pytest
from scipy.special import softmax

from graphut.experiments.training.learners.graph_scores import answer_metrics, auc, r2

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("classes", [2, 4])
def test_answer_metrics_of_classes_equal_scikit_learn(classes: int) -> None:
    learned = pytest.importorskip("sklearn.metrics")
    logits = RANDOM.normal(size=(200, classes))
    logits[:20] = 0  # ties
    labels = RANDOM.integers(0, classes, 200)
    metrics = answer_metrics("class", logits, labels)
    shares = softmax(logits, 1)
    by_class = learned.roc_auc_score(
        labels, shares[:, 1] if classes == 2 else shares, multi_class="ovr"
    )
    assert metrics["auc"] == pytest.approx(by_class)
    assert metrics["mae"] is metrics["r2"] is None


def test_answer_metrics_of_values_equal_scikit_learn() -> None:
    learned = pytest.importorskip("sklearn.metrics")
    logits, labels = RANDOM.normal(size=(90, 3)), RANDOM.integers(0, 2, (90, 3))
    metrics = answer_metrics("values", logits, logits + labels)
    assert metrics["mae"] == pytest.approx(labels.mean())
    assert metrics["r2"] == pytest.approx(learned.r2_score(logits + labels, logits))


def test_metrics_without_a_value_are_none() -> None:
    ones = np.ones((4, 2), bool)
    assert auc(np.arange(8.0).reshape(4, 2), ones) is None
    assert r2(np.zeros((3, 1)), np.ones((3, 1))) is None
    half = np.array([[True, True], [False, True]])
    assert auc(np.array([[2.0, 0.0], [1.0, 0.0]]), half) == 1.0  # of the first column alone
