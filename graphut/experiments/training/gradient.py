"""The gradient of a batch that is divided among processes and into parts."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from graphut.experiments.training.config import TrainingConfig
from graphut.experiments.training.learner import AnyLearner
from graphut.experiments.training.processes import all_reduce_sum, num_processes, shard
from graphut.experiments.training.progress import update_numbers


def add_gradient(
    learner: AnyLearner,
    config: TrainingConfig,
    batch: list[Any],
    ponder_weight: float,
    late_share: float = 1.0,
    accumulate: int = 1,
) -> tuple[list[str], Tensor]:
    """Add the gradient of a batch to the `.grad` of the weights, the same in each process.

    The result does not depend on the division of the batch: losses and ponder costs are means over
    the labels and nodes of the whole batch. All processes have the same model and the whole batch.
    Each divides its share into `accumulate` parts and computes one after the other, to save memory.

    `late_share` is the factor of the losses in `Outcome.late`. Return the names of the model's
    recurrences ("encoder", "decoder"), and the sum of `update_numbers` over the batch.
    """
    count = accumulate * num_processes()
    counts = learner.counts(batch) if count > 1 else None
    parts = shard([batch[start::count] for start in range(count)])
    if counts is not None and getattr(batch[0], "part", None) is not None:
        # Each process has a part of the graph, and counts only that.
        sums = all_reduce_sum(torch.tensor([*counts.values()], device=learner.model.device))
        counts, parts = dict(zip(counts, sums.tolist(), strict=True)), [batch]
    used = [part for part in parts if part]
    factor = len(used) > 0  # a process without examples computes one, to join the exchange
    device, numbers = learner.model.device.type, []
    for part in used or [batch[:1]]:
        with torch.autocast(device, torch.bfloat16, enabled=config.autocasts(device)):
            outcome = learner.outcome(part, config.label_smoothing)
        loss = outcome.total_loss(ponder_weight, counts, late_share)
        torch.autograd.backward(factor * loss)
        numbers.append(factor * update_numbers(loss, outcome))
    if num_processes() > 1:
        gradients = [x.grad for x in learner.model.parameters() if x.grad is not None]
        vector_to_parameters(all_reduce_sum(parameters_to_vector(gradients)), gradients)
    return [*outcome.ponders], all_reduce_sum(torch.stack(numbers).sum(0))
