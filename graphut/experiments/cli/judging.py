"""A run's model, judged on a set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphut.experiments.training import Run, save_evaluation
from graphut.experiments.training.evaluations import model_digest
from graphut.experiments.training.work import work
from graphut.models.base import AdaptiveModel


def judge_set(
    run: Run,
    model: AdaptiveModel,
    name: str,
    examples: Sequence[Any],
    options: Mapping[str, Any],
    *,
    keep: bool,
) -> None:
    """Print how good a model is on a set.

    Parameters
    ----------
    run : Run
        Whose learner judges, with its vocabularies.
    model : AdaptiveModel
        The model.
    name : str
        The set's.
    examples : sequence
        The set.
    options : mapping
        For `Learner.record`.
    keep : bool
        Whether the run's folder gets what is found.
    """
    evaluation, more = run.learner.record(model, run.vocabularies, examples, **options)
    print(f"{name}, {len(examples)} {run.learner.examples}: {evaluation}", flush=True)
    if keep:
        asked = {"options": dict(options), "model": model_digest(run.folder)}
        done = work(run.learner, model, examples, run.training.batch_size)
        save_evaluation(run.folder, name, len(examples), evaluation, {**asked, **done, **more})
