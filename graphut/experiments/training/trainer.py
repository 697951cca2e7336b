"""The training loop, with checkpoints from which a run resumes exactly."""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from textwrap import fill
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from graphut._files import reraise_for_file
from graphut.experiments.messages import pluralize
from graphut.experiments.tasks import Task
from graphut.experiments.tasks.base import in_batches
from graphut.experiments.training import processes, run_files
from graphut.experiments.training.checkpoint import TrainingState, load_checkpoint, save_checkpoint
from graphut.experiments.training.config import TrainingConfig
from graphut.experiments.training.evaluation import progress_bar
from graphut.experiments.training.gradient import BatchGradient
from graphut.experiments.training.learners import evaluate, learner_of
from graphut.experiments.training.optimization import late_share, make_optimizer, make_schedule
from graphut.experiments.training.progress import Progress, Totals
from graphut.models.adaptive_model import AdaptiveModel
from graphut.nn import FixedDepth

SAVE_EVERY = 600.0
"""Seconds between two checkpoints within an epoch."""

_BAR = "{percentage:3.0f}%|{bar}| {desc}"
_DIVERGED = 1e6  # absolute value of a weight
_COLLAPSED = 1.05  # mean steps
_AT_CAP = 0.005  # a mean closer than this to the cap is printed as the cap
_LEARNED = 0.98  # accuracy at which a model needs no more steps


class Trainer:
    """Trains a model on a task, and saves the run in a folder.

    The model is trained on its own device. The folder is created if needed. It receives the best
    model so far (`save_pretrained`), a checkpoint to resume from, the metrics of each epoch, and a
    description of this machine.

    In a process group of `torch.distributed`, every process makes the same calls, and each computes
    a part of every batch. Only the first process writes files and reports.

    Parameters
    ----------
    report
        Function that is called with a line of text for each epoch and with warnings.
    lock
        The lock of the folder, if the caller already holds it.
    accumulate
        Number of parts into which each process divides its part of a batch, to save memory.
    on_epoch
        Function that is called with the metrics of each saved epoch, see `tensorboard_log`.

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
        lock: run_files.FolderLock | None = None,
        accumulate: int = 1,
        on_epoch: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.model = model
        self.task = task
        self.config = config
        self.folder = Path(folder)
        self.report = report if processes.is_first() else lambda line: None
        self.on_epoch = on_epoch
        kind = learner_of(task)
        if not isinstance(model, kind.model_kind):
            raise TypeError(
                f"the task {task.name} needs a {kind.model_kind.__name__}, got a "
                f"{type(model).__name__}"
            )
        task.check_choice(config.choose_by)
        self.learner = kind(model, task.vocabularies)
        self.learner.prepare(task)
        self.progress = Progress()
        self.saved_update = 0  # number of updates in the last checkpoint
        self._lock = lock or run_files.FolderLock(folder)
        self._owns_folder = False
        self._epoch_batches: tuple[int, list[list[Any]]] | None = None
        self.optimizer = make_optimizer(model, config)
        self.updates = len(self._batches())  # in an epoch
        self.scheduler = make_schedule(self.optimizer, config, config.epochs * self.updates)
        self._gradient = BatchGradient(self.learner, config, accumulate)
        self._average: AveragedModel | None = None
        if config.ema:
            self._average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(config.ema))
        self._state = TrainingState(model, self.optimizer, self.scheduler, self._average)
        self._saved_at = self._counted_at = time.monotonic()

    def fit(self, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Train to the end of the run, or until `should_stop` returns True before an update.

        Return whether the run has ended. To continue it, call `fit` again, or call `resume` and
        `fit` of a new `Trainer`. Files that were saved before an error remain.

        Raises
        ------
        FileExistsError
            If there is another run in the folder.
        BlockingIOError
            If another process is training in the folder, or could be because the lock was removed.
        FloatingPointError
            If the gradient is not finite or a weight has diverged.
        """
        with self._lock:
            if processes.is_first():
                if not self._owns_folder and (self.folder / run_files.CHECKPOINT).exists():
                    raise FileExistsError(
                        f"there is a run in {self.folder}: resume() it, or use another folder"
                    )
                self._owns_folder = True
                run_files.remove_temporary_files(self.folder)
                run_files.remember_machine(self.folder, self.model.device)
            finished, metrics = True, dict[str, Any]()
            while True:
                end = self.progress.end(self.config)
                self.progress.stopped = end is not None or not finished
                self._save()
                if metrics and self.on_epoch is not None:
                    self.on_epoch(metrics)
                if self.progress.stopped:
                    break
                try:
                    finished = self._train_epoch(should_stop)
                    metrics = self._end_epoch() if finished else {}
                except ValueError as error:
                    self._check_weights(str(error))  # it may follow from diverged weights
                    raise
            processes.barrier()  # until the last file is written
        if end is None:
            return False
        best, epochs = self.progress.best_epoch, self.progress.epoch
        source = f"; the model is from epoch {best}, the best on the validation set"
        self.report(f"done after {pluralize(epochs, 'epoch')}: {end}{source * (best < epochs)}")
        return True

    def resume(self) -> None:
        """Restore the state of the checkpoint in the folder, and report its number of updates.

        If `config` has more epochs than before, the learning rate follows the longer schedule.
        Raise `FileNotFoundError` if the folder or the checkpoint does not exist.
        """
        if not self.folder.is_dir():  # the lock would create the folder
            raise FileNotFoundError(f"there is no folder {self.folder}: name the folder of a run")
        path = self.folder / run_files.CHECKPOINT
        with self._lock:  # another process may be writing these files
            state = load_checkpoint(path, self._state)
            with reraise_for_file(path):
                self.progress = Progress.from_dict(state, self.learner.evaluation)
                rate = self.scheduler.lr_lambdas[0](self.scheduler.last_epoch)
                for group in self.optimizer.param_groups:
                    group["lr"] = group["initial_lr"] * rate
            lines, metrics = self.progress.epoch, self.folder / run_files.METRICS
            if processes.is_first():
                lines = run_files.drop_metrics_after(metrics, self.progress.update, lines)
        self._owns_folder = True
        self.saved_update = self.progress.update
        epochs, batch = pluralize(self.progress.epoch, "epoch"), self.progress.batch
        lost = "nothing is" if self.progress.stopped else "later updates are"
        self.report(
            f"resumed after update {self.progress.update}, {epochs} and "
            f"{pluralize(batch, 'batch', 'batches')}, saved "
            f"{datetime.fromtimestamp(path.stat().st_mtime):%Y-%m-%d %H:%M:%S}; {lost} lost"
        )
        if lines != self.progress.epoch:
            self.report(f"{metrics.name} has only {lines} of {epochs}")

    def _save(self) -> None:
        """Save a checkpoint, unless the weights have diverged."""
        if not processes.is_first():
            return
        self._check_before_saving()
        self._count_seconds()
        self._saved_at = time.monotonic()
        save_checkpoint(self.folder / run_files.CHECKPOINT, self._state, self.progress.to_dict())
        self.saved_update = self.progress.update

    def _check_before_saving(self) -> None:
        self._lock.check()
        self._check_weights("training has diverged")

    def _check_weights(self, problem: str) -> None:
        largest = [weight.detach().abs().max() for weight in self.model.parameters()]
        if not torch.stack(largest).max().item() < _DIVERGED:  # also if it is NaN
            self._stop_diverged(f"{problem} after update {self.progress.update}")

    def _stop_diverged(self, problem: str) -> NoReturn:
        advice = "try a lower learning_rate or clip_norm, or a longer warmup"
        if self.saved_update:
            advice += f" (update {self.saved_update} is saved in {self.folder})"
        raise FloatingPointError(f"{problem}: {advice}")

    def _count_seconds(self) -> None:
        now = time.monotonic()
        self.progress.seconds += now - self._counted_at
        self._counted_at = now

    def _batches(self) -> list[list[Any]]:
        """Return the batches of this epoch, which are generated only once per epoch."""
        seed, epoch = self.config.seed, self.progress.epoch
        if self._epoch_batches is None or self._epoch_batches[0] != epoch:
            examples = self.task.train(seed, epoch)
            order = np.random.default_rng([seed, epoch]).permutation(len(examples)).tolist()
            shuffled = [examples[index] for index in order]
            self._epoch_batches = epoch, list(in_batches(shuffled, self.config.batch_size))
        return self._epoch_batches[1]

    def _train_epoch(self, should_stop: Callable[[], bool]) -> bool:
        """Train to the end of the epoch; return False if `should_stop` ended it early."""
        self.model.train()
        batches = self._batches()
        first = self.progress.batch
        name = f"epoch {self.progress.epoch + 1}/{self.config.epochs}"
        with progress_bar(total=len(batches), initial=first, desc=name, bar_format=_BAR) as bar:
            for batch in batches[first:]:
                if processes.all_reduce_sum(torch.tensor(int(should_stop()))):
                    return False
                self._update(batch)
                bar.set_description_str(f"{name}: {self.progress.totals}", refresh=False)
                bar.update()
                if time.monotonic() - self._saved_at > SAVE_EVERY:
                    self._save()
        return True

    def _update(self, batch: list[Any]) -> None:
        if processes.num_processes() > 1:
            # Each process has its own seed, which a resumed run draws again.
            seeds = [self.config.seed, self.progress.update, processes.rank()]
            torch.manual_seed(int(np.random.SeedSequence(seeds).generate_state(1)[0]))
        self.optimizer.zero_grad()
        fraction = self.progress.update / (self.config.epochs * self.updates)
        parts, numbers = self._gradient.add(batch, self._ponder_weight(), late_share(fraction))
        self.progress.totals.add(parts, self._step(numbers))
        self.progress.update += 1
        self.progress.batch += 1

    def _ponder_weight(self) -> float:
        return self.config.ponder_weight * self.progress.ponder_factor(self.config)

    def _step(self, numbers: Tensor) -> list[float]:
        """Clip gradients, update weights; copy `numbers` (loss, counts) from the GPU to a list."""
        norms = clip_grad_norm_(self.model.parameters(), self.config.clip_norm).to(numbers)
        norm, *read = torch.cat([norms[None], numbers]).tolist()
        if not np.isfinite(norm):
            self._stop_diverged(
                f"the gradient's norm is {norm} at update {self.progress.update + 1}, with a loss "
                f"of {read[0]}"
            )
        self.optimizer.step()
        self.scheduler.step()
        if self._average is not None:
            self._average.update_parameters(self.model)
        return read

    def _end_epoch(self) -> dict[str, Any]:
        """Evaluate the model, save it if it is the best; return the metrics, in process 0 only."""
        progress, totals = self.progress, self.progress.totals
        model = self.model if self._average is None else self._average.module
        assert isinstance(model, AdaptiveModel)
        evaluation = evaluate(model, self.task, self.task.validation)
        progress.epoch += 1
        progress.batch = 0
        progress.totals = Totals()
        is_best = progress.update_best(evaluation, self.config)
        if not processes.is_first():
            return {}
        self._check_before_saving()
        if is_best:
            model.save_pretrained(self.folder)
        self._count_seconds()
        metrics = {
            "epoch": progress.epoch,
            "update": progress.update,
            "seconds": round(progress.seconds, 1),
            "learning_rate": self.scheduler.get_last_lr()[0],
            "ponder_weight": self._ponder_weight(),
            **totals.means(),
            "validation": evaluation.metrics,
        }
        run_files.append_metrics(self.folder / run_files.METRICS, metrics)
        validation = fill(f"  validation: {evaluation}", 80, subsequent_indent="    ")
        self.report(f"epoch {progress.epoch}: {totals}\n{validation}")
        if progress.end(self.config) is not None and not isinstance(self.model.rule, FixedDepth):
            for part, steps in totals.steps().items():
                cap, accuracy = self.model.max_steps, totals.accuracy
                if warning := halting_warning(part, steps, cap, accuracy):
                    self.report(fill(warning, 80))
        return metrics


def halting_warning(part: str, steps: float, max_steps: int, accuracy: float) -> str | None:
    """Return a warning if `part` ("encoder", ...) takes about 1 or `max_steps` steps, else None."""
    if max_steps > 1 and steps <= _COLLAPSED and accuracy < _LEARNED:
        advice = (
            "it halts at once. Use a lower ponder_weight, a longer ponder_warmup, a more negative "
            "halting_bias, or halting_gain 0."
        )
    elif max_steps > 1 and steps > max_steps - _AT_CAP:
        advice = (
            "it never halts before the cap. Use a higher ponder_weight, halting_bias or max_steps, "
            "or a rule with a lower threshold."
        )
    else:
        return None
    return f"The {part} takes {steps:.2f} of {max_steps} steps: {advice}"
