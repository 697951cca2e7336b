"""The gradient of a batch that is divided among processes and into parts."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from graphut.experiments.training.config import TrainingConfig
from graphut.experiments.training.learner import AnyLearner
from graphut.experiments.training.processes import all_reduce_sum, num_processes, shard
from graphut.experiments.training.progress import update_numbers


class BatchGradient:
    """Computes the gradient of a batch that is divided among processes, and into parts.

    The result does not depend on the division: losses and ponder costs are means over the labels
    and nodes of the whole batch. All processes have the same model and the whole batch;
    `DistributedDataParallel` exchanges gradients. Each process divides its share of the batch into
    `accumulate` parts and computes them one after the other, to save memory.
    """

    def __init__(self, learner: AnyLearner, config: TrainingConfig, accumulate: int = 1) -> None:
        if accumulate < 1:
            raise ValueError(f"accumulate must be at least 1, got {accumulate}")
        self._learner = learner
        self._parts = accumulate * num_processes()
        self._loss: nn.Module = _PartLoss(learner, config)
        self._apart: Callable[[], AbstractContextManager[object]] = nullcontext
        if num_processes() > 1:
            shared = DistributedDataParallel(self._loss)
            self._loss, self._apart = shared, shared.no_sync

    def add(
        self, batch: list[Any], ponder_weight: float, late_share: float = 1.0
    ) -> tuple[list[str], Tensor]:
        """Add the gradient of a batch to the weights' `.grad`.

        `late_share` is the factor of the losses in `Outcome.late`. Return the names of the model's
        recurrences ("encoder", "decoder"), and the sum of `update_numbers` over the batch.
        """
        counts = self._learner.counts(batch) if self._parts > 1 else None
        parts = shard([batch[start :: self._parts] for start in range(self._parts)])
        if counts is not None and getattr(batch[0], "part", None) is not None:
            # Each process has a part of the graph, and counts only that.
            sums = all_reduce_sum(
                torch.tensor([*counts.values()], device=self._learner.model.device)
            )
            counts, parts = dict(zip(counts, sums.tolist(), strict=True)), [batch]
        used = [part for part in parts if part]
        # A process without examples computes one with factor 0, to join the exchange.
        computed, factor = used or [batch[:1]], len(used) > 0
        all_numbers = []
        for index, part in enumerate(computed, 1):
            with nullcontext() if index == len(computed) else self._apart():
                names, loss, numbers = self._loss(part, counts, ponder_weight, late_share)
                # DistributedDataParallel averages over processes; here the sum is needed.
                torch.autograd.backward(factor * num_processes() * loss)
            all_numbers.append(factor * numbers)
        return names, all_reduce_sum(torch.stack(all_numbers).sum(0))


class _PartLoss(nn.Module):
    """A module that computes the contribution of a part of a batch to the loss."""

    def __init__(self, learner: AnyLearner, config: TrainingConfig) -> None:
        super().__init__()
        self.model = learner.model
        self._learner = learner
        self._config = config

    def forward(
        self, part: list[Any], counts: Mapping[str, int] | None, weight: float, late_share: float
    ) -> tuple[list[str], Tensor, Tensor]:
        device, config = self.model.device.type, self._config
        with torch.autocast(device, torch.bfloat16, enabled=config.autocasts(device)):
            outcome = self._learner.outcome(part, config.label_smoothing)
        loss = outcome.total_loss(weight, counts, late_share)
        return [*outcome.ponders], loss, update_numbers(loss, outcome)
