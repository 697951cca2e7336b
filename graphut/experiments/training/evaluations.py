"""How good a model is, and what a run keeps of it: small JSON files, one for each set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from graphut import __version__
from graphut._files import write_json
from graphut.experiments.tasks import Task
from graphut.experiments.training.learner import Evaluation
from graphut.experiments.training.learners import learner_of
from graphut.models.base import AdaptiveModel
from graphut.models.pretrained import WEIGHTS


def evaluate(model: AdaptiveModel, task: Task, examples: Sequence[Any]) -> Evaluation:
    """How good a model is on examples of a task.

    Parameters
    ----------
    model : AdaptiveModel
        The model.
    task : Task
        What it has learned.
    examples : sequence
        Such as `task.validation`.

    Examples
    --------
    >>> from graphut.models import UniversalTransformer, UniversalTransformerConfig
    >>> from graphut.experiments.tasks import Copy
    >>> config = UniversalTransformerConfig(source_vocab=28, target_vocab=28, d_model=16)
    >>> task = Copy(mean_length=2, held_out=4)
    >>> evaluate(UniversalTransformer(config), task, task.test).encoder_steps >= 1
    True
    """
    return learner_of(task).evaluate(model, task.vocabularies, examples)


def save_evaluation(
    folder: str | Path, name: str, count: int, evaluation: Evaluation, more: Mapping[str, Any]
) -> None:
    """Write what was found on a set into the folder of a run.

    Parameters
    ----------
    folder : str or Path
        The folder of the run.
    name : str
        The set; the file is `evaluation-<name>.json`.
    count : int
        Examples in it.
    evaluation : Evaluation
        What was found.
    more : mapping
        What else to keep: what `Learner.record` has said, and how it was asked.
    """
    record = {
        "graphut": __version__,
        "set": name,
        "examples": count,
        **evaluation.to_dict(),
        **more,
    }
    write_json(Path(folder, f"evaluation-{name}.json"), record)


def model_digest(folder: str | Path) -> str:
    """What tells the model in a folder from an earlier one: of the SHA-256 of its weights."""
    return sha256(Path(folder, WEIGHTS).read_bytes()).hexdigest()[:16]
