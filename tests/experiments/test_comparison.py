from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from graphut.experiments.comparison import Comparison, ComparisonRow
from graphut.experiments.tasks import Sort
from graphut.experiments.training import Run, Trainer, TrainingConfig, evaluate
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.models import UniversalTransformer, UniversalTransformerConfig
from graphut.topology import parse

TASK = Sort(mean_length=4, length_deviation=1, epoch_size=24, held_out=5)
TRAINING = TrainingConfig(epochs=2, batch_size=8)
SHAPE = {"d_model": 8, "num_heads": 2, "d_hidden": 8, "max_steps": 3}
LETTERS = len(TASK.source_vocabulary)


def comparison(*specs: str, **changes: Any) -> Comparison:
    config = UniversalTransformerConfig(source_vocab=LETTERS, target_vocab=LETTERS, **SHAPE)
    given = {"topologies": specs, "task": TASK, "training": TRAINING, "config": config}
    return Comparison(**{**given, **changes})


def quiet(_: str) -> None:
    pass


@pytest.mark.parametrize(
    ("part", "specs"),
    [
        ("encoder", ["complete", "binary_partition:1"]),
        ("decoder", ["causal", "window:1&causal"]),
        ("cross", ["complete", "window:0"]),
    ],
)
def test_comparison_trains_every_topology_with_every_seed(
    part: str, specs: list[str], tmp_path: Path
) -> None:
    said: list[str] = []
    rows = comparison(*specs, part=part, seeds=[3, 5]).run(tmp_path, repeats=1, report=said.append)
    assert [row.topology for row in rows] == specs
    for number, row in enumerate(rows, start=1):
        assert row.ms > 0 and len(row.evaluations) == 2
        for seed, evaluation in zip((3, 5), row.evaluations, strict=True):
            run = Run.open(tmp_path / f"{number}-seed-{seed}")
            assert run.training.seed == seed
            assert getattr(run.model().config, f"{part}_topology") == row.topology
            assert evaluate(run.model(), TASK, TASK.test) == evaluation
    assert f"{specs[-1]}, seed 5: epoch 1: loss" in "".join(said)


def test_comparison_trains_as_the_trainer_does(tmp_path: Path) -> None:
    rows = comparison("star", "window:1").run(tmp_path / "both", repeats=5, report=quiet)
    lengths = [len(source) for source, _ in TASK.test]
    for row in rows:
        topology = parse(row.topology)
        assert row.edges == sum(topology.num_edges(n) for n in lengths) / len(lengths)
    torch.manual_seed(0)
    model = UniversalTransformer(comparison("star").config_with("window:1"))
    torch.manual_seed(0)
    Trainer(model, TASK, TRAINING, tmp_path / "plain", report=quiet).fit()
    expected = (tmp_path / "plain" / "model.safetensors").read_bytes()
    assert (tmp_path / "both/2-seed-0" / "model.safetensors").read_bytes() == expected


def test_comparison_refuses_a_folder_with_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison("star").run(tmp_path, repeats=1, report=quiet)
    (tmp_path / "1-seed-0").rename(tmp_path / "2-seed-0")
    monkeypatch.setattr(Trainer, "fit", lambda self: pytest.fail("trained before it was refused"))
    with pytest.raises(FileExistsError, match="2-seed-0"):
        comparison("complete", "window:1").run(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"part": "middle"}, "part must be one of encoder, decoder, cross, got 'middle'"),
        ({"seeds": []}, "seeds is empty"),
        ({"seeds": [0, 1, 0]}, r"seeds must differ, got \[0, 1, 0\]"),
        ({"topologies": []}, "topologies is empty"),
        ({"topologies": ["star", "star"]}, "topologies must differ"),
        ({"part": "decoder"}, "decoder_topology must be causal"),
        ({"part": "cross", "topologies": ["star"]}, "cross_topology must be one without"),
    ],
)
def test_comparison_refuses_impossible_values(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        comparison("complete", "window:1", **changes)


def test_comparison_text_has_means_and_deviations() -> None:
    def row(spec: str, *accuracies: float) -> ComparisonRow:
        found = [PairLearner.evaluation(share, (1 + share) / 2, 1.5, 2.5) for share in accuracies]
        return ComparisonRow(spec, 225.0, 12.3, found)

    rows = [row("complete", 1.0, 0.5), row("window:1|global:0", 0.25, 0.25)]
    text = comparison("complete", seeds=[0, 7]).text(rows)
    title, _, head, first, second = text.splitlines()
    assert title == "encoder topologies on sort, at most 2 epochs, seeds 0, 7"
    assert head.split("  ")[0] == "encoder topology" and first.split("  ")[0] == "complete"
    assert "75.00% ± 35.36%  87.50% ± 17.68%    225        12.3" in first
    assert second.endswith("12.3    1.50 ± 0.00    2.50 ± 0.00")
    assert row("star", 0.5).cells() == ["star", "50.00%", "75.00%", "225", "12.3", "1.50", "2.50"]
    found = json.loads(json.dumps(rows[0].to_dict()))
    assert found["topology"] == "complete" and found["ms"] == 12.3
    assert found["evaluations"][1]["sequence_accuracy"] == 0.5
