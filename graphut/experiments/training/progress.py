"""The progress of a run: small records that a checkpoint keeps as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from graphut.experiments.training.config import TrainingConfig
from graphut.experiments.training.evaluation import Evaluation
from graphut.experiments.training.learner import Outcome


@dataclass
class PartTotals:
    """Sums over the nodes of one part of the model: tokens, and extra nodes of its topology."""

    nodes: int = 0
    steps: int = 0
    flops: int = 0
    all_flops: int = 0  # if every node had taken all steps
    active: list[int] = field(default_factory=list)  # nodes that took step 1, 2, ...


@dataclass
class Totals:
    """Sums over the updates of an epoch, and the means they make."""

    updates: int = 0
    loss: float = 0.0
    labels: int = 0
    right: int = 0
    parts: dict[str, PartTotals] = field(default_factory=dict)

    def add(self, parts: Sequence[str], numbers: Sequence[float]) -> None:
        """Add the `update_numbers` of an update."""
        loss, right, labels, *sums = numbers[0], *map(int, numbers[1:])
        self.updates += 1
        self.loss += loss
        self.right += right
        self.labels += labels
        width = len(sums) // len(parts)
        for index, name in enumerate(parts):
            part = self.parts.setdefault(name, PartTotals())
            nodes, steps, flops, all_flops, *active = sums[index * width : (index + 1) * width]
            part.nodes += nodes
            part.steps += steps
            part.flops += flops
            part.all_flops += all_flops
            part.active = [sum(both) for both in zip_longest(part.active, active, fillvalue=0)]

    @property
    def accuracy(self) -> float:
        """Return the share of right labels, with the answer fed in."""
        return self.right / self.labels

    def steps(self) -> dict[str, float]:
        """Return the mean steps of a node, by part."""
        return {name: part.steps / part.nodes for name, part in self.parts.items()}

    def means(self) -> dict[str, Any]:
        """Return loss of an update, accuracy, steps of a node, and share of all operations.

        `active` are the shares of nodes that took step 1, 2, ...; by part, as mean steps are.
        """
        done, everything = (
            sum(getattr(part, name) for part in self.parts.values())
            for name in ("flops", "all_flops")
        )
        return {
            "loss": self.loss / self.updates,
            "accuracy": self.accuracy,
            **{f"{name}_steps": steps for name, steps in self.steps().items()},
            "flops_share": done / everything,
            "active": {
                name: [round(count / part.active[0], 6) for count in part.active]
                for name, part in self.parts.items()
                if part.active  # a checkpoint of an older version has none
            },
        }

    def __str__(self) -> str:
        """Return loss, accuracy and steps in a line."""
        loss = self.loss / self.updates
        steps = " and ".join(f"{steps:.2f}" for steps in self.steps().values())
        return f"loss {loss:.4f}, {self.accuracy:.2%} of labels right, mean steps {steps}"


@torch.no_grad()
def update_numbers(loss: Tensor, outcome: Outcome) -> Tensor:
    """Return the numbers that `Totals` sums; those of the parts of a batch are summed too."""
    # Exact in float64: counts stay far below 2^53.
    zero = loss.new_zeros(1, dtype=torch.float64)
    numbers: list[Tensor | int] = [loss, outcome.right, outcome.labels]
    for ponder in outcome.ponders.values():
        numbers += [ponder.steps.numel(), ponder.steps.sum(), ponder.flops, ponder.all_flops]
        numbers.append(ponder.frontier_sizes)
    return torch.cat([zero + number for number in numbers])


# One epoch on target may be luck: a thousand sequences tell 99.9% from 100% only so well.
IN_A_ROW = 3


@dataclass
class Progress:
    """The progress of a run."""

    epoch: int = 0  # epochs done
    batch: int = 0  # batches done of the next one
    update: int = 0
    seconds: float = 0.0
    totals: Totals = field(default_factory=Totals)
    best: Evaluation | None = None
    best_epoch: int = 0
    stopped: bool = False  # on purpose, so that nothing was done after it
    on_target: int = 0  # epochs in a row, up to the last, that reached the target accuracy
    plateau: int = 0  # epochs in a row, up to the last, that were not better than all before
    ponder_start: int | None = None  # updates before the ponder weight rose, where it had to wait

    def update_best(self, evaluation: Evaluation, config: TrainingConfig) -> bool:
        """Take the evaluation of an epoch; return whether to keep its model.

        It is kept if no earlier one was better, or if the last one is what is asked for.
        """
        last, new = config.choose_by == "last", evaluation.rank_by(config.choose_by)
        best = None if self.best is None else self.best.rank_by(config.choose_by)
        full_price = not config.ponder_wait or self.ponder_factor(config) == 1.0
        reached = full_price and not last and evaluation.score >= config.target_accuracy
        self.on_target = self.on_target + 1 if reached else 0
        better = best is None or best < new
        self.plateau = 0 if better else self.plateau + 1
        if self.ponder_start is None and 0 < config.ponder_wait <= self.plateau:
            self.ponder_start = self.update
        if best is not None and new < best and not last:
            return False
        self.best, self.best_epoch = evaluation, self.epoch
        return True

    def ponder_factor(self, config: TrainingConfig) -> float:
        """Return the share of the ponder weight in the next update: from 0 up on a line."""
        start = self.ponder_start if config.ponder_wait else 0
        if start is None or not config.ponder_warmup:
            return float(start is not None)
        return min((self.update - start) / config.ponder_warmup, 1.0)

    @classmethod
    def replayed(
        cls,
        metrics: Iterable[Mapping[str, Any]],
        config: TrainingConfig,
        evaluation: Callable[..., Evaluation],
    ) -> Progress:
        """Return the progress of a run with these lines in `metrics.jsonl`.

        `evaluation` is the `Learner.evaluation` of its learner.
        """
        progress = cls()
        for line in metrics:
            progress.epoch, progress.update = line["epoch"], line["update"]
            progress.update_best(evaluation(**line["validation"]), config)
        return progress

    def end(self, config: TrainingConfig) -> str | None:
        """Return why the run is over, or `None` if it is not.

        Examples
        --------
        >>> Progress(epoch=3, best_epoch=1, update=400).end(TrainingConfig(patience=2))
        'no better model in 2 epochs'
        >>> Progress(epoch=3, best_epoch=1, update=30).end(TrainingConfig(patience=2)) is None
        True
        """
        if self.on_target >= IN_A_ROW:
            share = f"{config.target_accuracy:.2%}"
            return f"{IN_A_ROW} epochs in a row reached the target accuracy of {share}"
        # As of the learning rate: half of all updates is the longest warm-up.
        warm = self.update >= config.warmup or 2 * self.epoch >= config.epochs
        if warm and self.epoch - self.best_epoch >= config.patience:
            return f"no better model in {config.patience} epochs"
        if self.epoch >= config.epochs:
            several = config.epochs > 1
            return f"all {config.epochs} epochs are done" if several else "its one epoch is done"
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        return {**asdict(self), "best": self.best and self.best.metrics}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any], evaluation: Callable[..., Evaluation]) -> Progress:
        """Return the progress that `to_dict` has written, with the `Learner.evaluation`."""
        parts = {name: PartTotals(**part) for name, part in state["totals"]["parts"].items()}
        totals = Totals(**{**state["totals"], "parts": parts})
        best = state["best"] and evaluation(**state["best"])
        progress = cls(**{**state, "totals": totals, "best": best})
        counts = (progress.epoch, progress.batch, progress.update, progress.best_epoch)
        if not all(isinstance(count, int) and count >= 0 for count in counts):
            raise ValueError(f"its epochs, batches and updates are {counts}")
        return progress
