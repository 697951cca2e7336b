import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from graphut.experiments.tasks import Copy
from graphut.experiments.training import Trainer, TrainingConfig, evaluate
from graphut.experiments.training.learners.sequences import PairLearner
from graphut.experiments.training.processes import barrier, is_first
from graphut.experiments.training.run_files import (
    CHECKPOINT,
    METRICS,
    read_metrics,
)
from graphut.experiments.training.trainer import add_gradient
from graphut.models import (
    UniversalTransformer,
    UniversalTransformerConfig,
)
from tests.experiments.training.together import run_together

TASK = Copy(mean_length=3, length_deviation=1, epoch_size=20, held_out=6)
CONFIG = TrainingConfig(epochs=3, batch_size=8, warmup=2, ponder_warmup=4)  # 3 updates an epoch


def make_model(seed: int = 0, **options: Any) -> UniversalTransformer:
    torch.manual_seed(seed)
    options = {"d_model": 8, "num_heads": 2, "d_hidden": 8, "max_steps": 3} | options
    return UniversalTransformer(
        UniversalTransformerConfig(source_vocab=28, target_vocab=28, **options)
    )


def make(
    folder: Path,
    config: TrainingConfig = CONFIG,
    seed: int = 0,
    report: Callable[[str], None] = lambda line: None,
    **options: Any,
) -> Trainer:
    model = make_model(seed, dropout=0.1, share_embeddings=True, **options)  # tied weights
    return Trainer(model, TASK, config, folder, report)


def metrics(folder: Path) -> list[dict[str, Any]]:
    lines = read_metrics(folder / METRICS)
    for line in lines:
        del line["seconds"]
    return lines


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_same_end(first: Trainer, second: Trainer) -> None:
    for name, value in first.model.state_dict().items():
        assert torch.equal(second.model.state_dict()[name], value), name
    kept = [contents(trainer.folder)["model.safetensors"] for trainer in (first, second)]
    assert kept[0] == kept[1]
    assert metrics(first.folder) == metrics(second.folder)
    assert replace(first.progress, seconds=0) == replace(second.progress, seconds=0)


def fit_one_epoch(trainer: Trainer) -> None:
    """Train, and interrupt the training after an epoch."""
    run, last = trainer._run_epoch, trainer.progress.epoch + 1

    def run_or_interrupt() -> None:
        if trainer.progress.epoch == last:
            raise KeyboardInterrupt
        run()

    trainer._run_epoch = run_or_interrupt  # type: ignore[method-assign]
    with suppress(KeyboardInterrupt):
        trainer.fit()
    del trainer._run_epoch
    barrier()  # all files are written


AVERAGED = replace(CONFIG, ema=0.5)


@pytest.mark.parametrize(
    ("config", "noise"),
    [
        (replace(CONFIG, optimizer="adam"), 0.0),
        (replace(CONFIG, ponder_warmup=5), 0.3),
        (AVERAGED, 0.0),
    ],
)
def test_trainer_resumes_a_stopped_run_to_the_last_bit(
    tmp_path: Path, config: TrainingConfig, noise: float
) -> None:
    straight = make(tmp_path / "straight", config, noise=noise)
    straight.fit()
    stopped = make(tmp_path / "stopped", config, noise=noise)
    fit_one_epoch(stopped)
    for epoch in (1, 2):
        assert stopped.progress.epoch == epoch
        lines: list[str] = []
        stopped = make(tmp_path / "stopped", config, seed=5, noise=noise, report=lines.append)
        stopped.resume()
        assert re.match(rf"resumed after {epoch} epochs? and {3 * epoch} updates, saved 20", *lines)
        fit_one_epoch(stopped)
    assert_same_end(straight, stopped)


def test_resume_refuses_metrics_of_two_trainings(tmp_path: Path) -> None:
    """Two commands that train in one folder at the same time write such lines."""
    config = TrainingConfig(epochs=2, batch_size=8)
    make(tmp_path, config).fit()
    first, second = (tmp_path / METRICS).read_text().splitlines()
    (tmp_path / METRICS).write_text(f"{first}\n{first}\n{second}\n")
    with pytest.raises(ValueError, match="has not the lines of epochs 1 to 2, in order"):
        make(tmp_path, config, seed=5).resume()


@pytest.mark.parametrize("epoch", [0, 1])
def test_trainer_resumes_a_run_that_was_killed_between_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int
) -> None:
    straight = make(tmp_path / "straight")
    straight.fit()
    killed = make(tmp_path / "killed")
    save = killed._save_checkpoint

    def die_before_saving() -> None:
        if killed.progress.epoch > epoch:
            raise KeyboardInterrupt
        save()

    monkeypatch.setattr(killed, "_save_checkpoint", die_before_saving)
    with pytest.raises(KeyboardInterrupt):
        killed.fit()
    assert len(metrics(killed.folder)) == epoch + 1
    resumed = make(tmp_path / "killed", seed=5)
    resumed.resume()
    resumed.fit()
    assert_same_end(straight, resumed)


def assert_same_metrics(first: Path, second: Path) -> None:
    for one, other in zip(metrics(first), metrics(second), strict=True):
        assert one.pop("validation") == pytest.approx(other.pop("validation"), rel=1e-9)
        assert one == pytest.approx(other, rel=1e-9)


def test_trainer_of_two_processes_is_that_of_one(tmp_path: Path) -> None:
    config = replace(CONFIG, batch_size=7)  # the third has 6

    def make_one(name: str, dropout: float = 0.0) -> Trainer:
        model = make_model(dropout=dropout).double()
        return Trainer(model, TASK, config, tmp_path / name, lines.append)

    def train() -> None:
        fit_one_epoch(make_one("stopped"))
        fit_one_epoch(make_one("later"))
        again = make_one("stopped")
        again.resume()
        again.fit()
        straight, stopped = make_one("straight", 0.5), make_one("broken", 0.5)
        straight.fit()
        fit_one_epoch(stopped)
        resumed = make_one("broken", 0.5)
        resumed.resume()
        resumed.fit()
        assert_same_end(straight, resumed)
        assert bool(lines) == is_first()
        barrier()

    lines: list[str] = []
    make_one("alone").fit()
    assert lines
    lines.clear()
    run_together(train, tmp_path)
    assert_same_metrics(tmp_path / "alone", tmp_path / "stopped")
    later = make_one("later")
    later.resume()
    later.fit()
    assert_same_metrics(tmp_path / "alone", tmp_path / "later")


def test_trainer_writes_metrics_of_each_epoch(tmp_path: Path) -> None:
    lines: list[str] = []
    trainer = make(tmp_path, report=lines.append)
    (tmp_path / "evaluation-test.json").touch()  # of an older model
    trainer.fit()
    assert not (tmp_path / "evaluation-test.json").exists()
    read = read_metrics(tmp_path / METRICS)
    assert [(line["epoch"], line["update"]) for line in read] == [(1, 3), (2, 6), (3, 9)]
    for line in read:
        assert line["loss"] > 0 and 0 <= line["accuracy"] <= 1 and line["seconds"] >= 0
        assert 1 <= line["encoder_steps"] <= 3 and 1 <= line["decoder_steps"] <= 3
        assert {*line["validation"]} == {*PairLearner.metric_meanings}
    assert [line["ponder_weight"] for line in read] == [0.75e-3, 1e-3, 1e-3]
    assert read[-1]["learning_rate"] == 0.0
    assert lines[0].startswith("epoch 1: loss ") and lines[-1].startswith("done after 3 epochs")
    trainer.fit()
    assert trainer.progress.epoch == 3


def test_trainer_validates_and_keeps_the_average_of_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make(tmp_path, replace(AVERAGED, epochs=1, choose_by="last"))
    averages: list[dict[str, torch.Tensor]] = []
    step = trainer._step

    def step_and_average(numbers: torch.Tensor) -> list[float]:
        read = step(numbers)
        now = {name: value.clone() for name, value in trainer.model.state_dict().items()}
        averages.append({k: (averages[-1][k] + x) / 2 for k, x in now.items()} if averages else now)
        return read

    monkeypatch.setattr(trainer, "_step", step_and_average)
    trainer.fit()
    kept = UniversalTransformer.from_pretrained(tmp_path)
    for name, value in kept.state_dict().items():
        torch.testing.assert_close(value, averages[-1][name])
    assert len(averages) == 3
    last = trainer.model.state_dict()
    assert not all(torch.equal(last[name], value) for name, value in kept.state_dict().items())
    [line] = metrics(tmp_path)
    assert line["validation"] == evaluate(kept, TASK, TASK.validation).metrics


def test_trainer_refuses_a_gradient_that_is_not_finite(tmp_path: Path) -> None:
    trainer = make(tmp_path)
    next(trainer.model.parameters()).register_hook(lambda grad: grad * float("inf"))
    before = [weight.clone() for weight in trainer.model.parameters()]
    with pytest.raises(FloatingPointError, match=r"at update 1, .*try a lower learning_rate"):
        trainer.fit()
    assert all(map(torch.equal, trainer.model.parameters(), before))


# With batches of 20, the evaluation follows the first update.
@pytest.mark.parametrize(("rate", "size"), [(1e30, 8), (1e7, 8), (1e10, 20)])
def test_trainer_gives_advice_when_weights_diverge(tmp_path: Path, rate: float, size: int) -> None:
    config = replace(CONFIG, learning_rate=rate, batch_size=size)
    with pytest.raises(FloatingPointError, match=r"update \d.*: .* or a longer warmup$"):
        make(tmp_path, config).fit()
    assert load_file(tmp_path / CHECKPOINT)["model.output.bias"].abs().max() < 1
    assert not metrics(tmp_path)


def test_trainer_keeps_the_last_good_checkpoint_and_the_best_model(tmp_path: Path) -> None:
    trainer = make(tmp_path)
    fit_one_epoch(trainer)
    before = contents(tmp_path)
    next(trainer.model.parameters()).data[0] = float("nan")
    with pytest.raises(FloatingPointError, match=r"try a lower .* \(epoch 1 is saved in .*\)"):
        trainer.fit()
    assert contents(tmp_path) == before


def test_trainer_uses_bfloat16_only_in_the_forward_pass(tmp_path: Path) -> None:
    inside: list[torch.dtype] = []
    losses = []
    for precision in ("float32", "bfloat16"):
        trainer = make(tmp_path / precision, replace(CONFIG, precision=precision))
        trainer.model.eval()  # without dropout
        trainer.model.output.register_forward_hook(lambda *args: inside.append(args[-1].dtype))
        _, numbers = add_gradient(trainer.learner, trainer.config, TASK.validation, 0.01)
        losses.append(numbers[0])
        trainer._step(numbers)
        weights = [*trainer.model.parameters()]
        assert {x.dtype for weight in weights for x in (weight, weight.grad)} == {torch.float32}
    assert inside == [torch.float32, torch.bfloat16]
    assert losses[0] != losses[1]
    torch.testing.assert_close(losses[0], losses[1], rtol=0.02, atol=0)


def test_trainer_leaves_another_run_in_the_folder_alone(tmp_path: Path) -> None:
    first = make(tmp_path)
    first.fit()
    before = contents(tmp_path)
    with pytest.raises(FileExistsError, match=r"there is a run in .*: --resume it, or use"):
        make(tmp_path).fit()
    assert contents(tmp_path) == before


def test_trainer_refuses_a_metric_of_other_tasks(tmp_path: Path) -> None:
    message = r"choose_by must be 'task' or 'last' for copy; got 'log_prob"
    with pytest.raises(ValueError, match=message):
        make(tmp_path, TrainingConfig(choose_by="log_probability"))
