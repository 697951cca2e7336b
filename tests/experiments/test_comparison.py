from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from graphut.experiments.comparison import ComparisonRow, compare_topologies, comparison_text
from graphut.experiments.tasks import Sort
from graphut.experiments.training import Run, Trainer, TrainingConfig, evaluate
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.models import UniversalTransformer, UniversalTransformerConfig
from graphut.topology import parse
from tests.experiments.training.learners.small_models import evaluation_of

TASK = Sort(mean_length=4, length_deviation=1, epoch_size=24, held_out=5)
TRAINING = TrainingConfig(epochs=2, batch_size=8)
LETTERS = len(TASK.source_vocabulary)
CONFIG = UniversalTransformerConfig(
    source_vocab=LETTERS, target_vocab=LETTERS, d_model=8, num_heads=2, d_hidden=8, max_steps=3
)


def compare(folder: Path, *specs: str, **options: Any) -> list[ComparisonRow]:
    return compare_topologies(specs, TASK, TRAINING, CONFIG, folder, **options)


def test_compare_topologies_trains_every_topology_with_every_seed(tmp_path: Path) -> None:
    said: list[str] = []
    specs = ["star", "window:1"]
    rows = compare(tmp_path / "both", *specs, seeds=[3, 5], report=said.append)
    lengths = [len(source) for source, _ in TASK.test]
    for number, (spec, row) in enumerate(zip(specs, rows, strict=True), start=1):
        assert row.topology == spec and row.ms > 0
        assert row.edges == sum(parse(spec).num_edges(n) for n in lengths) / len(lengths)
        for seed, evaluation in zip((3, 5), row.evaluations, strict=True):
            run = Run.open(tmp_path / "both" / f"{number}-seed-{seed}")
            assert (run.training.seed, run.model().config.encoder_topology) == (seed, spec)
            assert evaluate(run.model(), TASK, TASK.test) == evaluation
    assert "window:1, seed 5: epoch 1: loss" in "".join(said)
    run = Run.open(tmp_path / "both/2-seed-5")
    torch.manual_seed(5)
    model = UniversalTransformer(replace(CONFIG, encoder_topology="window:1"))
    torch.manual_seed(5)
    Trainer(model, TASK, run.training, tmp_path / "plain", lambda line: None).fit()
    expected = (tmp_path / "plain" / "model.safetensors").read_bytes()
    assert (run.folder / "model.safetensors").read_bytes() == expected
    with pytest.raises(FileExistsError, match="1-seed-3"):
        compare(tmp_path / "both", *specs, seeds=[3])


def test_compare_topologies_refuses_impossible_values(tmp_path: Path) -> None:
    for specs, seeds, message in (
        (["star"], [], r"seeds must be different values, at least one; got \[\]"),
        (["star"], [0, 1, 0], r"seeds must be different values, .*; got \[0, 1, 0\]"),
        (["star"], [0, -1], "seed must be at least 0; got -1"),
        (["star", "star"], [0], "topologies must be different values"),
        (["star", "windw:3"], [0], "unknown topology 'windw'"),
    ):
        with pytest.raises(ValueError, match=message):
            compare(tmp_path, *specs, seeds=seeds)
    assert not [*tmp_path.iterdir()]


def test_comparison_text_has_means_and_deviations() -> None:
    found = [evaluation_of(PairLearner, share, (1 + share) / 2, 1.5, 2.5) for share in (1.0, 0.5)]
    head, row = comparison_text([ComparisonRow("star", 225.0, 12.3, found)]).splitlines()
    assert " ".join(head.split()) == (
        "topology edges ms per batch sequence accuracy token accuracy encoder steps decoder steps"
    )
    assert " ".join(row.split()) == (
        "star 225 12.3 75.00% ± 35.36% 87.50% ± 17.68% 1.50 ± 0.00 2.50 ± 0.00"
    )
