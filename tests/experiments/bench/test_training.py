import pytest
import torch

from graphut.experiments.bench import training
from graphut.experiments.bench.options import TrainOptions
from graphut.experiments.bench.training import WORKLOADS, bench_training

SMALL = {"d_model": 8, "num_heads": 2, "d_hidden": 16, "batch_size": 3}


@pytest.mark.parametrize("name", WORKLOADS)
def test_plain_models_compute_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    preset = training.preset_of(WORKLOADS[name].task, "small")
    monkeypatch.setattr(training, "preset_of", lambda *names: preset | SMALL)
    own, plain = bench_training(TrainOptions(workloads=(name,), repeats=1))
    assert (own["contender"], plain["contender"]) == ("graphut", "plain torch")
    assert own["error"] < 1e-5 and own["ms"] > 0


def test_a_wrong_model_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_gradients", lambda *_: [torch.rand(2)])
    rows = bench_training(TrainOptions(workloads=("sorting",), repeats=1))
    assert all("ms" not in row and row["note"].startswith("graphut is wrong by") for row in rows)
