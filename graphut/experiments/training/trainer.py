"""The training loop, with a checkpoint after each epoch."""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_, parameters_to_vector, vector_to_parameters
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from graphut._files import explain_write_errors, reraise_for_file
from graphut.experiments.messages import pluralize
from graphut.experiments.tasks import Task
from graphut.experiments.tasks.base import in_batches
from graphut.experiments.training import processes, run_files
from graphut.experiments.training.config import TrainingConfig
from graphut.experiments.training.evaluation import Progress, Totals, progress_bar, update_numbers
from graphut.experiments.training.learners import AnyLearner, evaluate, learner_of
from graphut.experiments.training.optimization import (
    late_share,
    learning_rate_factor,
    make_optimizer,
    ponder_factor,
)
from graphut.experiments.training.processes import all_reduce_sum, num_processes, shard
from graphut.experiments.training.run_files import TrainingState, load_checkpoint, save_checkpoint
from graphut.models.adaptive_model import AdaptiveModel

_BAR = "{percentage:3.0f}%|{bar}| {desc}"
_REPORTED = 10  # updates, at least, between two lines of text
_DIVERGED = 1e6  # absolute value of a weight


class Trainer:
    """Trains a model on a task, and saves the run in a folder.

    The model is trained on its own device. The folder is created if needed. It receives the best
    model so far (`save_pretrained`), a checkpoint and the metrics of each epoch. Two processes that
    train in one folder at the same time overwrite each other's files.

    The checkpoint is of the end of an epoch. A resumed run repeats, bit for bit, what would have
    followed; the updates since then are lost. Resuming within an epoch is not supported.

    In a process group of `torch.distributed`, every process makes the same calls, and each computes
    a part of every batch. Only the first process writes files and reports.

    Parameters
    ----------
    report
        Function that is called with lines of text: about epochs that are saved, and warnings.
    on_epoch
        Function that is called with the metrics of each saved epoch, such as `tensorboard_log`.

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
    epoch 1: loss ..., accuracy ...
    done after 1 epoch: all epochs are done
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
        on_epoch: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.model = model
        self.task = task
        self.config = config
        self.folder = Path(folder)
        self.report = report if processes.is_first() else lambda line: None
        self.on_epoch = on_epoch
        kind = learner_of(task)
        task.check_choice(config.choose_by)
        self.learner = kind(model, task.vocabularies)
        self.learner.prepare(task)
        self.progress = Progress()
        self._is_new = True
        self.updates = ceil(len(task.train(config.seed, 0)) / config.batch_size)  # in an epoch
        self.optimizer = make_optimizer(model, config)
        self._average: AveragedModel | None = None
        if config.ema:
            self._average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(config.ema))
        self._state = TrainingState(model, self.optimizer, self._average)

    def fit(self) -> None:
        """Train to the end of the run.

        An epoch is reported after it has been saved. To continue after an interruption, call
        `resume` and `fit` of a new `Trainer`.

        Raises
        ------
        FileExistsError
            If there is another run in the folder.
        FloatingPointError
            If the gradient is not finite or a weight has diverged.
        """
        if processes.is_first():
            with explain_write_errors(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
            if self._is_new:
                run_files.check_is_new(self.folder)
                self._save_checkpoint()
            self._is_new = False
            run_files.remove_temporary_files(self.folder)
            run_files.keep_metrics(self.folder, self.progress.epoch)
        try:
            while (end := self.progress.end(self.config)) is None:
                self._run_epoch()
        except ValueError as error:
            self._check_weights(str(error))  # it may follow from diverged weights
            raise
        best, epochs = self.progress.best_epoch, self.progress.epoch
        source = f"; the model is from epoch {best}, the best on the validation set"
        self.report(f"done after {pluralize(epochs, 'epoch')}: {end}{source * (best < epochs)}")
        processes.barrier()  # the first process has saved the model

    def resume(self) -> None:
        """Restore the state of the checkpoint in the folder, and report its number of updates.

        If `config` has more epochs than before, learning rate and ponder weight follow the longer
        schedule. Raise `FileNotFoundError` if there is no checkpoint.
        """
        path, metrics = self.folder / run_files.CHECKPOINT, self.folder / run_files.METRICS
        epoch = load_checkpoint(path, self._state)
        lines = run_files.read_metrics(metrics)[:epoch]
        if [line.get("epoch") for line in lines] != [*range(1, epoch + 1)]:
            raise ValueError(f"{metrics} has not the lines of epochs 1 to {epoch}, in order")
        with reraise_for_file(metrics):
            self.progress = Progress.replayed(lines, self.config, self.learner.evaluation)
        self._is_new = False
        self.report(
            f"resumed after {pluralize(epoch, 'epoch')} and "
            f"{pluralize(self.progress.update, 'update')}, saved "
            f"{datetime.fromtimestamp(path.stat().st_mtime):%Y-%m-%d %H:%M:%S}"
        )

    def _run_epoch(self) -> None:
        """Train for an epoch, evaluate and save the model; then report the epoch."""
        progress, began = self.progress, time.monotonic()
        totals = self._train_epoch()
        model = self.model if self._average is None else self._average.module
        assert isinstance(model, AdaptiveModel)
        evaluation = evaluate(model, self.task, self.task.validation)
        self._check_weights("training has diverged")
        progress.epoch += 1
        is_best = progress.add(evaluation, self.config)
        progress.seconds += time.monotonic() - began
        if not processes.is_first():
            return
        metrics = {
            "epoch": progress.epoch,
            "update": progress.update,
            "seconds": round(progress.seconds, 1),
            "learning_rate": self._learning_rate(),
            "ponder_weight": self._ponder_weight(),
            **totals.means(),
            "validation": evaluation.metrics,
        }
        # In this order a process that is killed in between leaves a run that can be resumed.
        if is_best:
            for path in self.folder.glob("evaluation-*.json"):
                path.unlink()  # of an older model
            model.save_pretrained(self.folder)
        run_files.append_metrics(self.folder / run_files.METRICS, metrics)
        self._save_checkpoint()
        has_ended = progress.end(self.config) is not None
        if progress.epoch == 1 or has_ended or progress.epoch % ceil(_REPORTED / self.updates) == 0:
            validation = fill(f"  validation: {evaluation}", 80, subsequent_indent="    ")
            self.report(f"epoch {progress.epoch}: {totals}\n{validation}")
        if self.on_epoch is not None:
            self.on_epoch(metrics)

    def _save_checkpoint(self) -> None:
        save_checkpoint(self.folder / run_files.CHECKPOINT, self._state, self.progress.epoch)

    def _check_weights(self, problem: str) -> None:
        largest = [weight.detach().abs().max() for weight in self.model.parameters()]
        if not torch.stack(largest).max().item() < _DIVERGED:  # also if it is NaN
            self._stop_diverged(f"{problem} after update {self.progress.update}")

    def _stop_diverged(self, problem: str) -> NoReturn:
        advice = "try a lower learning_rate or clip_norm, or a longer warmup"
        if self.progress.epoch:
            advice += f" (epoch {self.progress.epoch} is saved in {self.folder})"
        raise FloatingPointError(f"{problem}: {advice}")

    def _train_epoch(self) -> Totals:
        self.model.train()
        seed, epoch = self.config.seed, self.progress.epoch
        examples = self.task.train(seed, epoch)
        order = np.random.default_rng([seed, epoch]).permutation(len(examples)).tolist()
        batches = list(in_batches([examples[index] for index in order], self.config.batch_size))
        name, totals = f"epoch {epoch + 1}/{self.config.epochs}", Totals()
        with progress_bar(iterable=batches, desc=name, bar_format=_BAR) as bar:
            for batch in bar:
                self._update(batch, totals)
                bar.set_description_str(f"{name}: {totals}", refresh=False)
        return totals

    def _update(self, batch: list[Any], totals: Totals) -> None:
        if num_processes() > 1:
            # Each process has its own seed, which a resumed run draws again.
            seeds = [self.config.seed, self.progress.update, processes.rank()]
            torch.manual_seed(int(np.random.SeedSequence(seeds).generate_state(1)[0]))
        self.model.zero_grad()
        fraction = self.progress.update / (self.config.epochs * self.updates)
        parts, numbers = add_gradient(
            self.learner, self.config, batch, self._ponder_weight(), late_share(fraction)
        )
        totals.add(parts, self._step(numbers))
        self.progress.update += 1

    def _ponder_weight(self) -> float:
        update, updates = self.progress.update, self.config.epochs * self.updates
        factor = ponder_factor(update, self.config.ponder_warmup, updates)
        return self.config.ponder_weight * factor

    def _learning_rate(self) -> float:
        update, updates = self.progress.update, self.config.epochs * self.updates
        factor = learning_rate_factor(update, self.config.warmup, updates)
        return self.config.learning_rate * factor

    def _step(self, numbers: Tensor) -> list[float]:
        """Clip gradients, update weights; copy `numbers` (loss, counts) from the GPU to a list."""
        norms = clip_grad_norm_(self.model.parameters(), self.config.clip_norm).to(numbers)
        norm, *read = torch.cat([norms[None], numbers]).tolist()
        if not np.isfinite(norm):
            self._stop_diverged(
                f"the gradient norm is {norm} at update {self.progress.update + 1}, loss {read[0]}"
            )
        [group] = self.optimizer.param_groups
        group["lr"] = self._learning_rate()
        self.optimizer.step()
        if self._average is not None:
            self._average.update_parameters(self.model)
        return read


def add_gradient(
    learner: AnyLearner,
    config: TrainingConfig,
    batch: list[Any],
    ponder_weight: float,
    late_share: float = 1.0,
) -> tuple[list[str], Tensor]:
    """Compute the gradient of a batch, `.grad` of the weights, the same in each process.

    The result does not depend on the number of processes: losses and ponder costs are means over
    the labels and nodes of the whole batch. All processes have the same model and the whole batch.

    `late_share` is the factor of the losses in `Outcome.late`. Return the names of the model's
    recurrences ("encoder", "decoder"), and the sum of `update_numbers` over the batch.
    """
    part = shard(batch)
    factor = len(part) > 0  # a process without examples computes one, to join the exchange
    device = learner.model.device.type
    with torch.autocast(device, torch.bfloat16, enabled=config.autocasts(device)):
        outcome = learner.outcome(part or batch[:1], config.label_smoothing)
    counts = outcome.counts
    if num_processes() > 1:
        sums = torch.tensor([*counts.values()], device=learner.model.device)
        counts = dict(zip(counts, all_reduce_sum(factor * sums).tolist(), strict=True))
    loss = outcome.total_loss(ponder_weight, counts, late_share)
    torch.autograd.backward(factor * loss)
    if num_processes() > 1:
        gradients = [x.grad for x in learner.model.parameters() if x.grad is not None]
        vector_to_parameters(all_reduce_sum(parameters_to_vector(gradients)), gradients)
    return [*outcome.ponders], all_reduce_sum(factor * update_numbers(loss, outcome))
