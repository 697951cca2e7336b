"""The training loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from tqdm import tqdm

from graphut.experiments.tasks import Task
from graphut.experiments.tasks.base import in_batches
from graphut.experiments.training.advice import ponder_advice
from graphut.experiments.training.checkpoint import Trained, load_checkpoint, save_checkpoint
from graphut.experiments.training.config import TrainingConfig
from graphut.experiments.training.evaluations import evaluate
from graphut.experiments.training.learner import Evaluation, Outcome
from graphut.experiments.training.learners import learner_of
from graphut.experiments.training.lock import locked
from graphut.experiments.training.log import append_metrics, drop_metrics_after
from graphut.experiments.training.machines import remember_machine
from graphut.experiments.training.optimizer import make_optimizer, make_schedule
from graphut.experiments.training.progress import Progress, Totals
from graphut.experiments.training.schedules import ponder_factor
from graphut.models.base import AdaptiveModel

CHECKPOINT = "checkpoint.safetensors"
METRICS = "metrics.jsonl"
SAVE_EVERY = 600.0  # seconds, within an epoch


class Trainer:
    """Trains a model on a task, and keeps what it learns in a folder.

    The folder gets the best model so far (`save_pretrained`), a checkpoint to resume from,
    the metrics of each epoch, and what machine this is.

    Parameters
    ----------
    model : AdaptiveModel
        On the device to train on; of the kind that learns the task.
    task : Task
        What to learn.
    config : TrainingConfig
        How.
    folder : str or Path
        Made if it is not there.
    report : callable, optional
        Gets a line of text for each epoch, and advice.

    Attributes
    ----------
    updates : int
        How many an epoch has.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from graphut.models import UniversalTransformer, UniversalTransformerConfig
    >>> from graphut.experiments.tasks import Copy
    >>> model = UniversalTransformer(UniversalTransformerConfig(
    ...     source_vocab=28, target_vocab=28, d_model=8, num_heads=2, d_hidden=8, max_steps=2))
    >>> task = Copy(mean_length=2, epoch_size=8, held_out=2)
    >>> with TemporaryDirectory() as folder:
    ...     trainer = Trainer(model, task, TrainingConfig(epochs=1), folder)
    ...     trainer.fit()  # doctest: +ELLIPSIS
    epoch 1: loss ... of labels right, ...
    done after 1 epochs: all 1 epochs are done
    True
    >>> trainer.progress.update
    1
    """

    def __init__(
        self,
        model: AdaptiveModel,
        task: Task,
        config: TrainingConfig,
        folder: str | Path,
        report: Callable[[str], None] = print,
    ) -> None:
        self.model = model
        self.task = task
        self.config = config
        self.folder = Path(folder)
        self.report = report
        self.learner = learner_of(task)
        if not isinstance(model, self.learner.model_kind):
            raise TypeError(
                f"the task {task.name} is learned by a {self.learner.model_kind.__name__}, not by "
                f"a {type(model).__name__}"
            )
        self.progress = Progress()
        self._owns_folder = False
        self._advised: set[str] = set()
        self._drawn: tuple[int, list[list[Any]]] | None = None
        self.optimizer = make_optimizer(model.parameters(), config)
        self.updates = len(self._batches())
        self.scheduler = make_schedule(self.optimizer, config, config.epochs * self.updates)
        self._saved_at = self._counted_at = time.monotonic()

    def fit(self, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Train until the run is over, or until told to stop.

        Parameters
        ----------
        should_stop : callable, optional
            Asked before each update.

        Returns
        -------
        bool
            Whether the run is over; if not, `resume` and another `fit` go on with it.

        Raises
        ------
        FileExistsError
            If another run is in the folder.
        BlockingIOError
            If another process is training there.
        FloatingPointError
            If the gradient is not finite.
        """
        if not self._owns_folder and (self.folder / CHECKPOINT).exists():
            raise FileExistsError(
                f"there is a run in {self.folder}: resume() it, or give another folder"
            )
        self._owns_folder = True
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            remember_machine(self.folder, self.model.device)
            self.save()
            return self._train(should_stop)

    def _train(self, should_stop: Callable[[], bool]) -> bool:
        while (end := self.progress.end(self.config)) is None:
            finished = self._train_epoch(should_stop)
            if finished:
                self._end_epoch()
            self.save()
            if not finished:
                return False
        self.report(f"done after {self.progress.epoch} epochs: {end}")
        return True

    def save(self) -> None:
        """Write a checkpoint."""
        self._count_seconds()
        self._saved_at = time.monotonic()
        save_checkpoint(self.folder / CHECKPOINT, self._trained, self.progress.to_dict())

    def resume(self) -> None:
        """Go back to the checkpoint in the folder, to the last bit."""
        with locked(self.folder):  # another process may be writing what is read and cut here
            state = load_checkpoint(self.folder / CHECKPOINT, self._trained)
            self.progress = Progress.from_dict(state, self.learner.evaluation_kind)
            drop_metrics_after(self.folder / METRICS, self.progress.update)
        self._owns_folder = True

    def _count_seconds(self) -> None:
        now = time.monotonic()
        self.progress.seconds += now - self._counted_at
        self._counted_at = now

    @property
    def _trained(self) -> Trained:
        return Trained(self.model, self.optimizer, self.scheduler)

    def _batches(self) -> list[list[Any]]:
        """Those of the epoch, which may take a while to draw: they are drawn once."""
        seed, epoch = self.config.seed, self.progress.epoch
        if self._drawn is None or self._drawn[0] != epoch:
            examples = self.task.train(seed, epoch)
            order = np.random.default_rng([seed, epoch]).permutation(len(examples)).tolist()
            shuffled = [examples[index] for index in order]
            self._drawn = epoch, list(in_batches(shuffled, self.config.batch_size))
        return self._drawn[1]

    def _train_epoch(self, should_stop: Callable[[], bool]) -> bool:
        self.model.train()
        batches = self._batches()
        done = self.progress.batch
        with tqdm(
            total=len(batches),
            initial=done,
            desc=f"epoch {self.progress.epoch + 1}",
            unit="batch",
            leave=False,
            disable=None,  # no bar where nobody watches
        ) as bar:
            for batch in batches[done:]:
                if should_stop():
                    return False
                self._update(batch)
                bar.set_postfix_str(str(self.progress.totals), refresh=False)
                bar.update()
                if time.monotonic() - self._saved_at > SAVE_EVERY:
                    self.save()
        return True

    def _update(self, batch: list[Any]) -> None:
        outcome = self._outcome(batch)
        loss = outcome.loss(self._ponder_weight())
        self._step(loss)
        self.progress.totals.add(loss, outcome)
        self.progress.update += 1
        self.progress.batch += 1

    def _outcome(self, batch: list[Any]) -> Outcome:
        device = self.model.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.config.autocasts(device)):
            return self.learner.outcome(self.model, batch, self.config.label_smoothing)

    def _ponder_weight(self) -> float:
        factor = ponder_factor(self.progress.update, self.config.ponder_warmup)
        return self.config.ponder_weight * factor

    def _step(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        norm = clip_grad_norm_(self.model.parameters(), self.config.clip_norm).item()
        if not np.isfinite(norm):
            raise FloatingPointError(
                f"the gradient's norm is {norm} at update {self.progress.update + 1}, with a loss "
                f"of {loss.item()}: try a lower learning_rate or clip_norm, or a longer warmup"
            )
        self.optimizer.step()
        self.scheduler.step()

    def _end_epoch(self) -> None:
        progress, totals = self.progress, self.progress.totals
        evaluation = evaluate(self.model, self.task, self.task.validation)
        progress.epoch += 1
        progress.batch = 0
        progress.totals = Totals()
        if progress.judge(evaluation, self.config.target_accuracy):
            self.model.save_pretrained(self.folder)
        self._log(totals, evaluation)

    def _log(self, totals: Totals, evaluation: Evaluation) -> None:
        self._count_seconds()
        progress = self.progress
        metrics = {
            "epoch": progress.epoch,
            "update": progress.update,
            "seconds": round(progress.seconds, 1),
            "learning_rate": self.scheduler.get_last_lr()[0],
            "ponder_weight": self._ponder_weight(),
            **totals.means(),
            "validation": evaluation.to_dict(),
        }
        append_metrics(self.folder / METRICS, metrics)
        self.report(f"epoch {progress.epoch}: {totals}; validation: {evaluation}")
        # Before, pondering has not had its full price yet.
        if self.model.config.adaptive and progress.update >= self.config.ponder_warmup:
            for part, steps in totals.steps().items():
                self._advise(part, steps, totals.accuracy)

    def _advise(self, part: str, steps: float, accuracy: float) -> None:
        """Say what is wrong with an epoch's mean steps, when it was not so the epoch before."""
        advice = ponder_advice(part, steps, self.model.max_steps, accuracy)
        if advice and part not in self._advised:
            self.report(advice)
        (self._advised.add if advice else self._advised.discard)(part)
