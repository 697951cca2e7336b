from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from graphut.experiments.tasks import Copy
from graphut.experiments.training import Trainer, TrainingConfig, evaluate
from graphut.experiments.training import trainer as module
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.experiments.training.processes import barrier, is_first, rank
from graphut.experiments.training.run_files import (
    CHECKPOINT,
    LOCK,
    METRICS,
    FolderLock,
    read_metrics,
)
from graphut.experiments.training.trainer import halting_warning
from graphut.models import (
    UniversalTransformer,
    UniversalTransformerConfig,
    UniversalTransformerLM,
    UniversalTransformerLMConfig,
)
from tests.experiments.training.learners.small_models import evaluation_of
from tests.experiments.training.together import run_together
from tests.gpu_stand_in import gpu_stand_in

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


class StopAfter:
    def __init__(self, updates: int) -> None:
        self.left = updates

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


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
    seconds = {"seconds": 0.0}
    assert first.progress.to_dict() | seconds == second.progress.to_dict() | seconds


AVERAGED = replace(CONFIG, ema=0.5)


@pytest.mark.parametrize(
    ("updates", "config", "noise"),
    [
        (0, CONFIG, 0.0),
        (3, replace(CONFIG, optimizer="adam"), 0.0),  # between two epochs
        (5, replace(CONFIG, ponder_wait=1), 0.3),
        (7, replace(CONFIG, optimizer="muon"), 0.0),
        (8, AVERAGED, 0.0),
    ],
)
def test_trainer_resumes_a_stopped_run_to_the_last_bit(
    tmp_path: Path, updates: int, config: TrainingConfig, noise: float
) -> None:
    straight = make(tmp_path / "straight", config, noise=noise)
    assert straight.fit()

    stopped = make(tmp_path / "stopped", config, noise=noise)
    assert not stopped.fit(StopAfter(updates))
    assert stopped.progress.update == updates
    resumed = make(tmp_path / "stopped", config, seed=5, noise=noise)
    resumed.resume()
    assert resumed.fit()
    assert_same_end(straight, resumed)


def test_trainer_resumes_a_killed_run_from_its_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = make(tmp_path / "straight")
    straight.fit()

    killed = make(tmp_path / "killed")
    evaluations, save = iter([evaluate] * 2), killed._save
    monkeypatch.setattr(module, "evaluate", lambda *args: next(evaluations)(*args))
    monkeypatch.setattr(killed, "_save", lambda: killed.progress.epoch < 2 and save())
    with pytest.raises(StopIteration):
        killed.fit()
    assert [line["epoch"] for line in metrics(killed.folder)] == [1, 2]
    monkeypatch.undo()

    resumed = make(tmp_path / "killed", seed=5)
    resumed.resume()
    assert [line["epoch"] for line in metrics(killed.folder)] == [1]
    resumed.fit()
    assert_same_end(straight, resumed)


def test_trainer_resume_reports_where_it_goes_on_and_what_is_lost(tmp_path: Path) -> None:
    first = make(tmp_path)
    first.fit(StopAfter(4))
    for lost in ("nothing is", "later updates are"):
        lines: list[str] = []
        again = make(tmp_path, report=lines.append)
        again.resume()
        [line] = lines
        assert line.startswith("resumed after update 4, 1 epoch and 1 batch, saved 20")
        assert line.endswith(f"; {lost} lost")
        with pytest.raises(KeyboardInterrupt):
            again.fit(interrupt)
    (tmp_path / METRICS).unlink()
    again.resume()
    assert lines[-1] == "metrics.jsonl has only 0 of 1 epoch"


def assert_same_metrics(first: Path, second: Path) -> None:
    """Compare up to rounding, without the operations, which depend on the division of a batch."""
    for one, other in zip(metrics(first), metrics(second), strict=True):
        del one["flops_share"], other["flops_share"]
        for nested in ("validation", "active"):
            mine, others = one.pop(nested), other.pop(nested)
            assert mine.keys() == others.keys()
            for key in mine:
                assert mine[key] == pytest.approx(others[key], rel=1e-9)
        assert one == pytest.approx(other, rel=1e-9)


def test_trainer_of_two_processes_is_that_of_one(tmp_path: Path) -> None:
    config = replace(CONFIG, batch_size=7)  # the third has 6

    def make_one(name: str, dropout: float = 0.0) -> Trainer:
        model = make_model(dropout=dropout).double()
        return Trainer(model, TASK, config, tmp_path / name, lines.append)

    def train() -> None:
        assert not make_one("stopped").fit(StopAfter(4 if rank() else 9))
        assert not make_one("later").fit(StopAfter(4))
        again = make_one("stopped")
        again.resume()
        assert again.fit()
        straight, stopped = make_one("straight", 0.5), make_one("broken", 0.5)
        assert straight.fit() and not stopped.fit(StopAfter(5))
        resumed = make_one("broken", 0.5)
        resumed.resume()
        assert resumed.fit()
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
    assert "after update 4, 1 epoch and 1 batch" in lines[0]
    assert later.fit()
    assert_same_metrics(tmp_path / "alone", tmp_path / "later")


def interrupt() -> bool:
    """End the process, as a second Ctrl-C does."""
    raise KeyboardInterrupt


def test_trainer_saves_within_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = []
    monkeypatch.setattr(module, "SAVE_EVERY", 0.0)
    trainer = make(tmp_path)
    monkeypatch.setattr(trainer, "_save", lambda: saved.append(trainer.progress.update))
    trainer.fit(StopAfter(2))
    assert saved == [0, 1, 2, 2]


def test_trainer_writes_metrics_of_each_epoch(tmp_path: Path) -> None:
    lines: list[str] = []
    trainer = make(tmp_path, report=lines.append)
    trainer.fit()
    read = read_metrics(tmp_path / METRICS)
    assert [(line["epoch"], line["update"]) for line in read] == [(1, 3), (2, 6), (3, 9)]
    for line in read:
        assert line["loss"] > 0 and 0 <= line["accuracy"] <= 1 and line["seconds"] >= 0
        assert 1 <= line["encoder_steps"] <= 3 and 1 <= line["decoder_steps"] <= 3
        assert 1 / 3 <= line["flops_share"] <= 1
        for part, active in line["active"].items():  # the mean is the sum of the shares
            assert sum(active) == pytest.approx(line[f"{part}_steps"], abs=1e-5)
        assert {*line["validation"]} == {*PairLearner.metric_meanings}
    assert [line["ponder_weight"] for line in read] == [0.75e-3, 1e-3, 1e-3]
    assert read[-1]["learning_rate"] == 0.0
    assert lines[0].startswith("epoch 1: loss ") and lines[-1].startswith("done after 3 epochs")
    assert trainer.fit() and trainer.progress.epoch == 3


def test_trainer_says_at_the_end_which_model_it_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    scores = iter([0.2, 0.4, 0.3])
    monkeypatch.setattr(
        module, "evaluate", lambda *_: evaluation_of(PairLearner, next(scores), 0, 1, 1)
    )
    make(tmp_path, report=lines.append).fit()
    kept = "the model is from epoch 2, the best on the validation set"
    assert lines[-1] == f"done after 3 epochs: all epochs are done; {kept}"


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
    assert trainer.fit()
    kept = UniversalTransformer.from_pretrained(tmp_path)
    for name, value in kept.state_dict().items():
        torch.testing.assert_close(value, averages[-1][name])
    assert len(averages) == 3
    last = trainer.model.state_dict()
    assert not all(torch.equal(last[name], value) for name, value in kept.state_dict().items())
    [line] = metrics(tmp_path)
    assert line["validation"] == evaluate(kept, TASK, TASK.validation).metrics


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_trainer_refuses_a_gradient_that_is_not_finite(tmp_path: Path, value: float) -> None:
    trainer = make(tmp_path)
    next(trainer.model.parameters()).register_hook(lambda grad: grad * value)
    before = [weight.clone() for weight in trainer.model.parameters()]
    with pytest.raises(FloatingPointError, match=r"at update 1, .*try a lower learning_rate"):
        trainer.fit()
    assert all(map(torch.equal, trainer.model.parameters(), before))


# With batches of 20, the evaluation follows the first update.
@pytest.mark.parametrize(("rate", "size"), [(1e30, 8), (1e7, 8), (1e10, 20)])
def test_trainer_gives_advice_when_weights_diverge(tmp_path: Path, rate: float, size: int) -> None:
    config = replace(CONFIG, learning_rate=rate, batch_size=size)
    with pytest.raises(FloatingPointError, match=r"update 1.*: try a lower learning_rate"):
        make(tmp_path, config).fit()
    assert load_file(tmp_path / CHECKPOINT)["model.output.bias"].abs().max() < 1


def test_trainer_keeps_the_last_good_checkpoint_and_the_best_model(tmp_path: Path) -> None:
    trainer = make(tmp_path)
    trainer.fit(StopAfter(4))
    before = contents(tmp_path)
    next(trainer.model.parameters()).data[0] = float("nan")
    message = r"after update 4: try a lower learning_rate .* \(update 4 is saved in .*\)"
    with pytest.raises(FloatingPointError, match=message):
        trainer.fit()
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("options", "parts"),
    [({"halting_bias": -9.0}, ["encoder", "decoder"]), ({"rule": "fixed"}, [])],
)
def test_trainer_warns_at_the_end_about_bad_halting(
    tmp_path: Path, options: dict[str, Any], parts: list[str]
) -> None:
    lines: list[str] = []
    make(tmp_path, **options, report=lines.append).fit()
    assert [line.split(":")[0] for line in lines[:3]] == ["epoch 1", "epoch 2", "epoch 3"]
    for part, line in zip(parts, lines[3:-1], strict=True):
        assert f"The {part} takes " in line and "never halts before" in " ".join(line.split())


def test_trainer_uses_bfloat16_only_in_the_forward_pass(tmp_path: Path) -> None:
    inside: list[torch.dtype] = []
    losses = []
    for precision in ("float32", "bfloat16"):
        trainer = make(tmp_path / precision, replace(CONFIG, precision=precision))
        trainer.model.eval()  # without dropout
        trainer.model.output.register_forward_hook(lambda *args: inside.append(args[-1].dtype))
        _, numbers = trainer._gradient.add(TASK.validation, 0.01)
        losses.append(numbers[0])
        trainer._step(numbers)
        weights = [*trainer.model.parameters()]
        assert {x.dtype for weight in weights for x in (weight, weight.grad)} == {torch.float32}
    assert inside == [torch.float32, torch.bfloat16]
    assert losses[0] != losses[1]
    torch.testing.assert_close(losses[0], losses[1], rtol=0.02, atol=0)


@pytest.mark.full
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_trainer_waits_for_a_gpu_at_most_twice_in_an_update(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="needs triton")
    with gpu_stand_in() as gpu:
        model = make_model(dropout=0.1, max_offset=4, source_positions="both").to("cuda")
        trainer = Trainer(model, TASK, replace(CONFIG, precision="float32"), tmp_path)
        first, second, _ = trainer._batches()
        trainer._update(first)
        gpu.clear()
        trainer._update(second)
        assert len(gpu.waits) <= 2, gpu.waits
        sent = [copy for copy in gpu.copies if copy.line.startswith("attention/layout.py")]
        assert len(sent) == 2, gpu.copies  # the batch, and its labels
        assert trainer.optimizer.param_groups[0]["fused"]


def test_trainer_leaves_another_run_in_the_folder_alone(tmp_path: Path) -> None:
    first = make(tmp_path)
    first.fit()
    before = contents(tmp_path)
    with pytest.raises(FileExistsError, match=r"there is a run in .*: resume\(\) it, or use"):
        make(tmp_path).fit()
    assert contents(tmp_path) == before
    assert first.fit()


def test_trainer_refuses_a_folder_that_another_process_has_locked(tmp_path: Path) -> None:
    make(tmp_path).fit(StopAfter(1))
    before, second = contents(tmp_path), make(tmp_path)
    second.resume()
    refused = pytest.raises(BlockingIOError, match="another process is training in")
    with FolderLock(tmp_path), refused:
        second.fit()
    assert contents(tmp_path)[CHECKPOINT] == before[CHECKPOINT]
    assert second.fit()


@pytest.mark.parametrize("updates", [1, 3])  # at its next save, or at the end of the epoch
def test_trainer_writes_nothing_more_without_its_lock(tmp_path: Path, updates: int) -> None:
    trainer, before = make(tmp_path), {}

    def remove_the_lock() -> bool:
        if trainer.progress.update == 2:
            (tmp_path / LOCK).unlink()
            before.update(contents(tmp_path))
        return trainer.progress.update == updates + 1

    with pytest.raises(BlockingIOError, match=r"lock was removed during training"):
        trainer.fit(remove_the_lock)
    assert contents(tmp_path) == before


def test_trainer_refuses_a_model_or_a_metric_of_other_tasks(tmp_path: Path) -> None:
    model = UniversalTransformerLM(UniversalTransformerLMConfig(vocab_size=28))
    with pytest.raises(TypeError, match=r"the task copy needs a .*Transformer, got a .*LM"):
        Trainer(model, TASK, CONFIG, tmp_path)
    message = r"choose_by must be 'task' or 'last' for copy; got 'log_prob"
    with pytest.raises(ValueError, match=message):
        make(tmp_path, TrainingConfig(choose_by="log_probability"))


def test_trainer_resume_needs_a_folder_and_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"):
        make(tmp_path / "nowhere").resume()
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError, match=CHECKPOINT):
        make(tmp_path).resume()


@pytest.mark.parametrize(
    ("steps", "cap", "accuracy", "fault"),
    [
        *((steps, 6, 0.5, "it halts at once") for steps in (1.0, 1.05)),
        *((steps, 6, 1.0, "it never halts before the cap") for steps in (5.996, 6.0)),
        *((steps, 6, 0.5, None) for steps in (1.06, 5.71, 5.99)),
        (1.0, 1, 0.5, None),
        (1.0, 6, 0.99, None),  # a model that is accurate needs no more steps
    ],
)
def test_halting_warning(steps: float, cap: int, accuracy: float, fault: str | None) -> None:
    warning = halting_warning("encoder", steps, cap, accuracy) or "none"
    expected = f"The encoder takes {steps:.2f} of {cap} steps: {fault}" if fault else "none"
    assert warning.startswith(expected)
