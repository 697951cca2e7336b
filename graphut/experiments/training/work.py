"""How much a model computes for examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from graphut.experiments.tasks.base import in_batches
from graphut.experiments.training.learner import AnyLearner
from graphut.models.base import AdaptiveModel

_MOST = 100
_LIGHTER = 4  # without gradients an example takes less memory


def work(
    learner: AnyLearner, model: AdaptiveModel, examples: Sequence[Any], batch_size: int
) -> dict[str, float]:
    """Floating-point operations for an example, and which share of all it is.

    They are those of the steps that were done, forward, with the answers fed in (normalisations
    and activations left out); "all" is what they would be if no node halted before `max_steps`.

    Parameters
    ----------
    learner : Learner
        That of the examples.
    model : AdaptiveModel
        The model.
    examples : sequence
        At least one.
    batch_size : int
        That of training: four times as many are run at a time, up to 100.

    Returns
    -------
    dict
        `flops_per_example` and `flops_share`.
    """
    done = everything = 0
    size = min(_LIGHTER * batch_size, _MOST)
    with torch.no_grad(), model.evaluating():
        for batch in in_batches(examples, size):
            for ponder in learner.outcome(model, batch, 0.0).ponders.values():
                done += int(ponder.flops)
                everything += int(ponder.all_flops)
    return {"flops_per_example": done / len(examples), "flops_share": done / everything}
