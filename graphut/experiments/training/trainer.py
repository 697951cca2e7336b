"""The training loop."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm import tqdm

from graphut._files import reraise_for_file
from graphut.experiments.tasks import Task
from graphut.experiments.tasks.base import in_batches
from graphut.experiments.training.checkpoint import TrainingState, load_checkpoint, save_checkpoint
from graphut.experiments.training.config import TrainingConfig
from graphut.experiments.training.evaluation import Evaluation, progress_bar
from graphut.experiments.training.folder_lock import FolderLock
from graphut.experiments.training.gradient import BatchGradient
from graphut.experiments.training.learners import evaluate, learner_of
from graphut.experiments.training.optimization import (
    late_share,
    make_optimizer,
    make_schedule,
    update_rate,
)
from graphut.experiments.training.processes import (
    all_reduce_sum,
    barrier,
    is_first,
    num_processes,
    rank,
)
from graphut.experiments.training.progress import Progress, Totals
from graphut.experiments.training.run_files import (
    CHECKPOINT,
    METRICS,
    append_metrics,
    drop_metrics_after,
    own_files,
    remember_machine,
    remove_temporary_files,
)
from graphut.experiments.wording import counted
from graphut.models.base import AdaptiveModel
from graphut.nn import FixedDepth, MultiHeadAttention

SAVE_EVERY = 600.0  # seconds, within an epoch

_BAR = "{percentage:3.0f}%|{bar}| {desc}"
_DIVERGED = 1e6  # a weight as large as this
_COLLAPSED = 1.05  # steps
_AT_CAP = 0.005  # steps below the cap: two decimals show the cap
_LEARNED = 0.98  # of the labels: a model that gets these right needs no more steps
_TO_WARN = 3  # epochs in a row: those at the beginning may be unlike all later ones


class Trainer:
    """The training of a model, on the device that it is on, on a task and in a folder.

    The folder is made if it is not there. It gets the best model so far (`save_pretrained`), a
    checkpoint to resume from, the metrics of each epoch, and a description of this machine.
    `report` gets a line of text for each epoch, and warnings; `lock` is the lock of the folder, if
    the caller holds it already; for `accumulate` see `BatchGradient`.

    In a process group of `torch.distributed`, all processes train together and make each call; only
    the first one writes and reports. A batch is that of one process, and they share it.

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
    done after 1 epoch: its one epoch is done
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
        lock: FolderLock | None = None,
        accumulate: int = 1,
    ) -> None:
        self.model = model
        self.task = task
        self.config = config
        self.folder = Path(folder)
        self.report = report if is_first() else lambda line: None
        self.learner = learner_of(task)
        if not isinstance(model, self.learner.model_kind):
            raise TypeError(
                f"the task {task.name} is learned by a {self.learner.model_kind.__name__}, not by "
                f"a {type(model).__name__}"
            )
        least, most = config.min_steps, model.max_steps
        if least > most or (least and not model.config.share_weights):
            raise ValueError(
                f"min_steps must be at most max_steps={most}, and 0 without share_weights; got "
                f"{least}"
            )
        metrics = self.learner.metric_meanings
        if config.choose_by == "log_probability" and "log_probability" not in metrics:
            raise ValueError(
                f"choose_by must be 'task' or 'last': the validation of {task.name} has no "
                f"log_probability, but {', '.join(metrics)}"
            )
        self.progress = Progress()
        self.saved_update = 0  # updates done when the last checkpoint was saved
        self._lock = lock or FolderLock(folder)
        self._owns_folder = False
        self._files: set[str] = set()
        self._warnings: Counter[str] = Counter()  # epochs in a row, by part
        self._epoch_batches: tuple[int, list[list[Any]]] | None = None
        self.optimizer = make_optimizer(model.parameters(), config)
        self.updates = len(self._batches())  # of an epoch
        self.scheduler = make_schedule(self.optimizer, config, config.epochs * self.updates)
        self._gradient = BatchGradient(model, self.learner, config, accumulate)
        self._average: AveragedModel | None = None
        if config.ema:
            self._average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(config.ema))
        self._state = TrainingState(model, self.optimizer, self.scheduler, self._average)
        self._saved_at = self._counted_at = time.monotonic()

    def fit(self, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Train until the run is over, or until `should_stop`, asked before each update, is true.

        Return whether the run is over; if not, `resume` and another `fit` go on with it. Raise
        `FileExistsError` if another run is in the folder, `FileNotFoundError` if files of the run
        are removed meanwhile, `BlockingIOError` if another process is training there, or may be,
        since the lock was removed, and `FloatingPointError` if the gradient is not finite, or a
        weight is beyond all bounds; what was saved stays.
        """
        with self._writing():
            if is_first():
                if not self._owns_folder and (self.folder / CHECKPOINT).exists():
                    raise FileExistsError(
                        f"there is a run in {self.folder}: resume() it, or give another folder"
                    )
                self._owns_folder = True
                remove_temporary_files(self.folder)
                remember_machine(self.folder, self.model.device)
            finished = True
            while True:
                end = self.progress.end(self.config)
                self.progress.stopped = end is not None or not finished
                self._save()
                if self.progress.stopped:
                    break
                finished = self._train_epoch(should_stop)
                if finished:
                    self._end_epoch()
            barrier()  # until the last file is written
        if not finished:
            return False
        self.report(f"done after {counted(self.progress.epoch, 'epoch')}: {end}")
        return True

    def _save(self) -> None:
        """Write a checkpoint over the last one, if this one can be gone on from."""
        if not is_first():
            return
        self._check_before_saving()
        self._count_seconds()
        self._saved_at = time.monotonic()
        save_checkpoint(self.folder / CHECKPOINT, self._state, self.progress.to_dict())
        self.saved_update = self.progress.update
        self._check_files()

    def resume(self) -> None:
        """Go back to the checkpoint in the folder, to the last bit, and report where that is.

        If `config` has other epochs than before, the learning rate goes on as with these. Raise
        `FileNotFoundError` if there is no folder or no checkpoint in it.
        """
        if not self.folder.is_dir():  # the lock would make it
            raise FileNotFoundError(f"there is no folder {self.folder}: name the folder of a run")
        path = self.folder / CHECKPOINT
        with self._writing():  # another process may be writing what is read and cut here
            state = load_checkpoint(path, self._state)
            with reraise_for_file(path):
                self.progress = Progress.from_dict(state, self.learner.evaluation)
                update_rate(self.optimizer, self.scheduler)
            lines = self.progress.epoch
            if is_first():
                lines = drop_metrics_after(self.folder / METRICS, self.progress.update, lines)
        self._owns_folder = True
        self.saved_update = self.progress.update
        lost = "nothing" if self.progress.stopped else "what was done after that"
        self.report(
            f"goes on after update {self.progress.update}, {counted(self.progress.epoch, 'epoch')} "
            f"and {counted(self.progress.batch, 'batch', 'batches')}, saved "
            f"{datetime.fromtimestamp(path.stat().st_mtime):%Y-%m-%d %H:%M:%S}; {lost} is lost"
        )
        if lines != self.progress.epoch:
            self.report(f"{METRICS} has {lines} of {self.progress.epoch} epochs: others are lost")

    def _writing(self) -> AbstractContextManager[object]:
        return self._lock if is_first() else nullcontext()

    def _check_before_saving(self) -> None:
        self._lock.check()
        self._check_weights("training has diverged")

    def _check_files(self) -> None:
        """Raise `FileNotFoundError` if files of the run were removed since they were last seen."""
        found = own_files(self.folder)
        if gone := self._files - found:
            raise FileNotFoundError(
                f"{', '.join(sorted(gone))} was removed from {self.folder} while this process was "
                "training there: put it back and resume the run, or begin another"
            )
        self._files = found

    def _check_weights(self, problem: str) -> None:
        weights = torch.stack([weight.detach().abs().max() for weight in self.model.parameters()])
        if not weights.max().item() < _DIVERGED:  # or is no number
            self._stop_diverged(f"{problem} after update {self.progress.update}")

    def _stop_diverged(self, problem: str) -> NoReturn:
        saved = f" (update {self.saved_update} is saved in {self.folder})"
        raise FloatingPointError(
            f"{problem}: try a lower learning_rate or clip_norm, or a longer warmup"
            + saved * (self.saved_update > 0)
        )

    @contextmanager
    def _advising(self) -> Iterator[None]:
        """Say what to do where the model refuses numbers because training has diverged."""
        try:
            yield
        except ValueError as error:
            self._check_weights(str(error))
            raise

    def _count_seconds(self) -> None:
        now = time.monotonic()
        self.progress.seconds += now - self._counted_at
        self._counted_at = now

    def _batches(self) -> list[list[Any]]:
        """Return the batches of the epoch, drawn once, since drawing may take a while."""
        seed, epoch = self.config.seed, self.progress.epoch
        if self._epoch_batches is None or self._epoch_batches[0] != epoch:
            examples = self.task.train(seed, epoch)
            order = np.random.default_rng([seed, epoch]).permutation(len(examples)).tolist()
            shuffled = [examples[index] for index in order]
            self._epoch_batches = epoch, list(in_batches(shuffled, self.config.batch_size))
        return self._epoch_batches[1]

    def _train_epoch(self, should_stop: Callable[[], bool]) -> bool:
        self.model.train()
        for layer in self.model.modules():
            if isinstance(layer, MultiHeadAttention):
                layer.linear = self.progress.epoch < self.config.linear_start
        batches = self._batches()
        done = self.progress.batch
        name = f"epoch {self.progress.epoch + 1}/{self.config.epochs}"
        with progress_bar(total=len(batches), initial=done, desc=name, bar_format=_BAR) as bar:
            for batch in batches[done:]:
                if all_reduce_sum(torch.tensor(int(should_stop()))):
                    return False
                self._update(batch)
                if not bar.disable:
                    bar.set_description_str(self._status(), refresh=False)
                bar.update()
                if time.monotonic() - self._saved_at > SAVE_EVERY:
                    self._save()
        return True

    def _status(self) -> str:
        """Return epoch, loss, accuracy, steps, and the time that all other epochs would take."""
        self._count_seconds()
        progress, epochs = self.progress, self.config.epochs
        left = progress.seconds * (epochs * self.updates / progress.update - 1)
        totals = progress.totals
        steps = "/".join(f"{steps:.1f}" for steps in totals.steps().values())
        return (
            f"epoch {progress.epoch + 1}/{epochs}, loss {totals.loss / totals.updates:.3g}, "
            f"{totals.accuracy:.1%} right, steps {steps}, {tqdm.format_interval(left)} left"
        )

    def _update(self, batch: list[Any]) -> None:
        if num_processes() > 1:  # each has random numbers of its own, the same if it is resumed
            stream = np.random.SeedSequence([self.config.seed, self.progress.update, rank()])
            torch.manual_seed(int(stream.generate_state(1)[0]))
        self.optimizer.zero_grad()
        with self._advising(), self._drawn_max_steps():
            done = self.progress.update / (self.config.epochs * self.updates)
            parts, numbers = self._gradient.add(batch, self._ponder_weight(), late_share(done))
        self.progress.totals.add(parts, self._step(numbers))
        self.progress.update += 1
        self.progress.batch += 1

    def _ponder_weight(self) -> float:
        return self.config.ponder_weight * self.progress.ponder_factor(self.config)

    @contextmanager
    def _drawn_max_steps(self) -> Iterator[None]:
        """Run a `with` block with a `max_steps` that is a function of the seed and the update.

        So it is the same in all processes and all parts of a batch.
        """
        most = self.model.max_steps
        if self.config.min_steps:
            random = np.random.default_rng([self.config.seed, self.progress.update, 0])
            self.model.max_steps = int(random.integers(self.config.min_steps, most + 1))
        try:
            yield
        finally:
            self.model.max_steps = most

    def _step(self, numbers: Tensor) -> list[float]:
        """Change the weights, and return the numbers; of a whole update this alone waits."""
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

    def _end_epoch(self) -> None:
        progress, totals = self.progress, self.progress.totals
        kept = self.model if self._average is None else self._average.module
        assert isinstance(kept, AdaptiveModel)
        with self._advising():
            evaluation = evaluate(kept, self.task, self.task.validation)
        if is_first():
            self._check_before_saving()
            self._check_files()
        progress.epoch += 1
        progress.batch = 0
        progress.totals = Totals()
        better = progress.update_best(evaluation, self.config)
        if is_first():
            if better:
                kept.save_pretrained(self.folder)
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
            "validation": evaluation.metrics,
        }
        append_metrics(self.folder / METRICS, metrics)
        self.report(f"epoch {progress.epoch}: {totals}; validation: {evaluation}")
        # Before, pondering has not had its full price yet.
        may_halt = not isinstance(self.model.rule, FixedDepth)
        if may_halt and progress.ponder_factor(self.config) == 1.0:
            for part, steps in totals.steps().items():
                self._warn(part, steps, totals.accuracy)

    def _warn(self, part: str, steps: float, accuracy: float) -> None:
        """Report what is wrong with the mean steps of an epoch, the third time in a row."""
        warning = halting_warning(part, steps, self.model.max_steps, accuracy)
        self._warnings[part] = self._warnings[part] + 1 if warning else 0
        if warning and self._warnings[part] == _TO_WARN:
            self.report(warning)


def halting_warning(part: str, steps: float, max_steps: int, accuracy: float) -> str | None:
    """Return a warning if the mean steps of a part have collapsed or sit at the cap.

    Examples
    --------
    >>> print(halting_warning("decoder", 1.0, 6, 0.5))
    The decoder takes 1.00 of 6 steps: it halts at once. Turn down ponder_weight, turn up
    ponder_warmup, make halting_bias more negative, or set halting_gain to 0.
    """
    if max_steps == 1:
        return None
    if steps <= _COLLAPSED and accuracy < _LEARNED:
        return (
            f"The {part} takes {steps:.2f} of {max_steps} steps: it halts at once. Turn down "
            "ponder_weight, turn up ponder_warmup, make halting_bias more negative, or set "
            "halting_gain to 0."
        )
    if steps > max_steps - _AT_CAP:
        return (
            f"The {part} takes {steps:.2f} of {max_steps} steps: it never halts before the cap. "
            "Turn up ponder_weight, halting_bias or max_steps, or lower the rule's threshold."
        )
    return None
