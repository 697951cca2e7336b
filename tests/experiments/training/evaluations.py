"""Evaluations with metrics in the order of their meanings."""

from __future__ import annotations

from typing import Any

from graphut.experiments.training import Evaluation


def evaluation_of(learner: Any, *values: float) -> Evaluation:
    return learner.evaluation(**dict(zip(learner.metric_meanings, values, strict=False)))
