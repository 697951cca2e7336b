from __future__ import annotations

import json

import pytest
import torch

from graphut.experiments.bench import model
from graphut.experiments.bench.model import bench_model, scheduled_depths
from graphut.experiments.bench.workloads import ModelProblem, Sizes
from graphut.topology import Causal, Complete, Topology
from tests.experiments.bench.cases import TOPOLOGIES


def tiny(topology: Topology, **changes: int) -> ModelProblem:
    given = {"topology": topology, "sizes": Sizes(4, 3, 9), "dim": 16, "heads": 2}
    return ModelProblem(**(given | {"backend": "torch"} | changes))


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
def test_bench_model_compares_results(topology: Topology) -> None:
    for row in bench_model(tiny(topology), repeats=1)["rows"]:
        assert row["error"] < 1e-5 and row["reason"] is None
        assert row["speed_up"] is not None and row["bound_by_flops"] > 1


def test_bench_model_when_nobody_halts() -> None:
    rows = bench_model(tiny(Complete()), repeats=1, nobody_halts=True)["rows"]
    found = [(row["halting"], row["pass"]) for row in rows]
    passes = ("forward", "forward+backward")
    assert found == [(halting, what) for halting in ("schedule", "nobody") for what in passes]
    assert rows[0]["bound_by_flops"] > rows[2]["bound_by_flops"]


def test_bench_model_has_the_ratio_of_operations() -> None:
    sizes, dim = Sizes(2, 5, 5), 16
    problem = ModelProblem(topology=Complete(), sizes=sizes, dim=dim, heads=2, halting=False)
    (row, _) = bench_model(problem, repeats=1)["rows"]
    assert row["bound_by_flops"] == 1  # nothing padded, nobody halts, every edge is there


def test_bench_model_returns_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "peak_bytes", lambda run, device: 32 if len(run()) else 0)
    report = json.loads(json.dumps(bench_model(tiny(Causal()), repeats=1)))
    for row in report["rows"]:
        medians = [row[f"{name}_seconds"]["median"] for name in ("dense", "adaptive")]
        assert row["speed_up"] == pytest.approx(medians[0] / medians[1])
        assert row["share_of_bound"] == pytest.approx(row["speed_up"] / row["bound_by_flops"])
        assert row["memory_ratio"] == 1
    monkeypatch.setattr(model, "peak_bytes", lambda run, device: None)
    assert bench_model(tiny(Causal()), repeats=1)["rows"][0]["memory_ratio"] is None


def test_bench_model_has_no_figures_of_models_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    real = model.PaddedModel.forward

    def wrong(self: model.PaddedModel, x: torch.Tensor, depth: torch.Tensor) -> torch.Tensor:
        return 1.03 * real(self, x, depth)

    monkeypatch.setattr(model.PaddedModel, "forward", wrong)
    for row in bench_model(tiny(Causal()), repeats=1)["rows"]:
        assert row["reason"] == "wrong by 3e-02"
        assert row["speed_up"] is None and row["dense_peak_bytes"] is None


@pytest.mark.gpu
def test_bench_model_on_a_gpu() -> None:
    problem = ModelProblem(topology=Causal(), sizes=Sizes(4, 3, 9), device=torch.device("cuda"))
    assert all(row["speed_up"] for row in bench_model(problem, repeats=1)["rows"])


def test_scheduled_depths_give_frontiers_of_the_schedule() -> None:
    depth = scheduled_depths(1000)
    sizes = [int((depth >= step).sum()) for step in range(1, 9)]
    assert sizes == [1000, 900, 700, 500, 300, 200, 100, 50]
    assert depth.equal(scheduled_depths(1000))


def test_scheduled_depths_are_at_least_one() -> None:
    assert int(scheduled_depths(1).min()) >= 1
