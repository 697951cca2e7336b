"""The gradient of a batch that is divided among processes and into parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from graphut.experiments.training.config import TrainingConfig
from graphut.experiments.training.learner import AnyLearner
from graphut.experiments.training.processes import all_reduce_sum, num_processes, shard
from graphut.experiments.training.progress import update_numbers
from graphut.models.base import AdaptiveModel

_TRIALS = 5  # timed gradients in each precision, after one untimed


class BatchGradient:
    """Computes the gradient of a batch, which does not depend on the division into parts.

    Loss and ponder costs are means over the labels and nodes of the whole batch, even if the parts
    have different numbers of them. All processes have the same model and know the whole batch;
    `DistributedDataParallel` exchanges only gradients. Each process computes `accumulate` parts one
    after the other, to save memory.
    """

    def __init__(
        self, model: AdaptiveModel, learner: AnyLearner, config: TrainingConfig, accumulate: int = 1
    ) -> None:
        if accumulate < 1:
            raise ValueError(f"accumulate must be at least 1, got {accumulate}")
        self._model = model
        self._learner = learner
        self._parts = accumulate * num_processes()
        self._loss: nn.Module = _PartLoss(model, learner, config)
        self._apart: Callable[[], AbstractContextManager[object]] = nullcontext
        if num_processes() > 1:
            # Every part uses every parameter: `find_unused_parameters` is not needed.
            shared = DistributedDataParallel(self._loss)
            self._loss, self._apart = shared, shared.no_sync

    def add(
        self, batch: list[Any], ponder_weight: float, late_share: float = 1.0
    ) -> tuple[list[str], Tensor]:
        """Accumulate the gradient of a batch in the parameters.

        Return the names of the model's parts, such as "encoder", and the batch's `update_numbers`.
        """
        counts = self._learner.counts(self._model, batch) if self._parts > 1 else None
        parts = shard([batch[start :: self._parts] for start in range(self._parts)])
        used = [part for part in parts if part]
        # A process without examples computes one with factor 0, to take part in the exchange.
        computed, factor = used or [batch[:1]], len(used) > 0
        all_numbers = []
        for index, part in enumerate(computed, 1):
            with nullcontext() if index == len(computed) else self._apart():
                names, loss, numbers = self._loss(part, counts, ponder_weight, late_share)
                # DistributedDataParallel averages over processes; the sum is wanted.
                torch.autograd.backward(factor * num_processes() * loss)
            all_numbers.append(factor * numbers)
        return names, all_reduce_sum(torch.stack(all_numbers).sum(0))


class _PartLoss(nn.Module):
    """Computes the share of a part of a batch in the loss.

    It is a module because `DistributedDataParallel` takes only modules.
    """

    def __init__(self, model: AdaptiveModel, learner: AnyLearner, config: TrainingConfig) -> None:
        super().__init__()
        self.model = model
        self._learner = learner
        self._config = config

    def forward(
        self,
        part: list[Any],
        counts: Mapping[str, int] | None,
        ponder_weight: float,
        late_share: float = 1.0,
    ) -> tuple[list[str], Tensor, Tensor]:
        device, config = self.model.device.type, self._config
        with torch.autocast(device, torch.bfloat16, enabled=config.autocasts(device)):
            outcome = self._learner.outcome(self.model, part, config.label_smoothing)
        loss = outcome.total_loss(ponder_weight, counts, late_share)
        return [*outcome.ponders], loss, update_numbers(loss, outcome)


def multiplies_bfloat16() -> bool:
    """Return whether the CPU has instructions for products in bfloat16."""
    # Older versions of torch lack this function.
    found: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(found.get(name) for name in ("amx_bf16", "avx512_bf16"))


def bfloat16_gain(
    model: AdaptiveModel, learner: AnyLearner, batch: list[Any], config: TrainingConfig
) -> float:
    """Measure how many times faster a gradient is with a forward pass in bfloat16 than in float32.

    The two precisions take turns, and the shortest times are compared: other programs on the
    machine can only make them longer. Neither the model nor the random state changes.
    """
    trial = deepcopy(model)
    seconds: dict[Literal["float32", "bfloat16"], list[float]] = {"float32": [], "bfloat16": []}
    with torch.random.fork_rng(devices=[]):
        for _ in range(1 + _TRIALS):
            for precision, taken in seconds.items():
                loss = _PartLoss(trial, learner, replace(config, precision=precision))
                start = time.perf_counter()
                torch.autograd.backward(loss(batch, None, config.ponder_weight)[1])
                taken.append(time.perf_counter() - start)
    float32, bfloat16 = (min(taken[1:]) for taken in seconds.values())
    return float32 / bfloat16
