from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from graphut.experiments.bench.comparison import Comparison, ComparisonReport, ComparisonRow
from graphut.experiments.tasks import Sort
from graphut.experiments.training import Run, Trainer, TrainingConfig, evaluate
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.models import UniversalTransformer, UniversalTransformerConfig
from graphut.topology import Topology, parse

TASK = Sort(mean_length=4, length_deviation=1, epoch_size=24, held_out=5)
TRAINING = TrainingConfig(epochs=2, batch_size=8)
SHAPE = {"d_model": 8, "num_heads": 2, "d_hidden": 8, "max_steps": 3}
LETTERS = len(TASK.source_vocabulary)


def comparison(*specs: str, **changes: Any) -> Comparison:
    config = UniversalTransformerConfig(source_vocab=LETTERS, target_vocab=LETTERS, **SHAPE)
    given = {"topologies": [parse(spec) for spec in specs], "task": TASK, "training": TRAINING}
    return Comparison(**{**given, "config": config, **changes})


def quiet(_: str) -> None:
    pass


@pytest.mark.parametrize(
    ("part", "specs"),
    [
        ("encoder", ["complete", "star", "binary_partition:1"]),
        ("decoder", ["causal", "window:1&causal"]),
        ("cross", ["complete", "window:0"]),
    ],
)
def test_comparison_run_trains_every_topology_with_every_seed(
    part: str, specs: list[str], tmp_path: Path
) -> None:
    said: list[str] = []
    found = comparison(*specs, part=part, seeds=[3, 5]).run(tmp_path, repeats=1, report=said.append)
    assert [str(row.topology) for row in found.rows] == specs
    for number, row in enumerate(found.rows, start=1):
        assert row.seconds > 0 and len(row.evaluations) == 2
        for seed, evaluation in zip((3, 5), row.evaluations, strict=True):
            run = Run.open(tmp_path / f"{number}-seed-{seed}")
            assert run.training.seed == seed
            assert getattr(run.model().config, f"{part}_topology") == str(row.topology)
            again = evaluate(run.model(), TASK, TASK.test)
            assert again == evaluation
    assert [line.split(":")[0] for line in said if "done after" in line] != []
    assert f"{specs[-1]}, seed 5: epoch 1: loss" in "".join(said)


def test_comparison_run_counts_edges_of_a_sentence(tmp_path: Path) -> None:
    found = comparison("complete", "star").run(tmp_path, repeats=1, report=quiet)
    lengths = [len(source) for source, _ in TASK.test]
    for row, topology in zip(found.rows, (parse("complete"), parse("star")), strict=True):
        assert row.edges == sum(topology.num_edges(n) for n in lengths) / len(lengths)


def test_comparison_run_trains_as_the_trainer_does(tmp_path: Path) -> None:
    """Whatever is compared with it."""
    [row] = comparison("window:1").run(tmp_path / "alone", repeats=1, report=quiet).rows
    rows = comparison("star", "window:1").run(tmp_path / "both", repeats=1, report=quiet).rows
    assert rows[1].evaluations == row.evaluations
    torch.manual_seed(0)
    model = UniversalTransformer(comparison("star").config_under(parse("window:1")))
    torch.manual_seed(0)
    Trainer(model, TASK, TRAINING, tmp_path / "plain", report=quiet).fit()
    expected = (tmp_path / "plain" / "model.safetensors").read_bytes()
    for folder in ("alone/1-seed-0", "both/2-seed-0"):
        assert (tmp_path / folder / "model.safetensors").read_bytes() == expected


def test_comparison_run_leaves_timed_models_as_they_are(tmp_path: Path) -> None:
    many = comparison("star").run(tmp_path / "many", repeats=5, report=quiet)
    few = comparison("star").run(tmp_path / "few", repeats=1, report=quiet)
    assert many.rows[0].evaluations == few.rows[0].evaluations


def test_comparison_run_refuses_a_folder_with_another_run(
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
        ({"part": "decoder"}, "decoder_topology must be causal"),
        ({"part": "cross", "topologies": [parse("star")]}, "cross_topology must be between"),
    ],
)
def test_comparison_refuses_bad_input(changes: dict[str, list[Topology]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        comparison("complete", "window:1", **changes)


def row(spec: str, *accuracies: float) -> ComparisonRow:
    found = [PairLearner.evaluation(share, (1 + share) / 2, 1.5, 2.5) for share in accuracies]
    return ComparisonRow(parse(spec), 225.0, 0.0123, found)


@pytest.fixture
def report() -> ComparisonReport:
    rows = [row("complete", 1.0, 0.5), row("window:1|global:0", 0.25, 0.25)]
    return ComparisonReport("sort", "encoder", [0, 7], 40, rows, {"threads": 1})


def test_comparison_report_text(report: ComparisonReport) -> None:
    title, _, head, first, second = report.text().splitlines()
    assert title == "encoder topologies on sort, at most 40 epochs, seeds 0, 7"
    assert head.split("  ")[0] == "encoder topology"
    assert first.split("  ")[0] == "complete"
    assert "75.00% ± 35.36%  87.50% ± 17.68%    225        12.3" in first
    assert second.endswith("12.3    1.50 ± 0.00    2.50 ± 0.00")


def test_comparison_row_cells_of_one_seed_have_no_deviation() -> None:
    cells = row("star", 0.5).cells()
    assert cells == ["star", "50.00%", "75.00%", "225", "12.3", "1.50", "2.50"]


def test_comparison_report_to_dict(report: ComparisonReport) -> None:
    found = json.loads(json.dumps(report.to_dict()))
    assert (found["task"], found["part"], found["seeds"]) == ("sort", "encoder", [0, 7])
    assert found["rows"][1]["topology"] == "window:1|global:0"
    assert found["rows"][0]["evaluations"][1]["sequence_accuracy"] == 0.5
    assert found["rows"][0]["seconds"] == 0.0123 and found["machine"] == {"threads": 1}


SPECS = ["complete", "window:1|global:0,1,2,3,4,5,6,7,8,9"]


def make_report(*seeds: int) -> ComparisonReport:
    evaluations = [PairLearner.evaluation(0.5 + 0.1 * seed, 0.75, 1.5, 2.5) for seed in seeds]
    rows = [ComparisonRow(parse(spec), 100.0, 0.02, evaluations) for spec in SPECS]
    return ComparisonReport("sort", "encoder", seeds, 10, rows, {})


def test_comparison_report_draw_has_bars_of_means_and_dots_of_seeds() -> None:
    accuracy, edges, time, steps = make_report(0, 1).draw().axes
    widths = [[bar.get_width() for bar in axes.patches] for axes in (edges, time)]
    assert widths == [[100, 100], [20, 20]]
    assert [bar.get_width() for bar in accuracy.patches] == pytest.approx([55, 55, 75, 75])
    assert [bar.get_width() for bar in steps.patches] == pytest.approx([1.5, 1.5, 2.5, 2.5])
    assert accuracy.lines[0].get_xdata() == pytest.approx([50, 60])
    assert not edges.lines


def test_comparison_report_draw_goes_from_top_to_bottom() -> None:
    figure = make_report(0).draw()
    accuracy = figure.axes[0]
    labels = [label.get_text() for label in accuracy.get_yticklabels()]
    assert labels == ["complete", "window:1|global:0,1,2,3,4,5,6..."]
    bottom, top = accuracy.get_ylim()
    assert bottom > top and not accuracy.lines
    assert figure.get_suptitle() == make_report(0).title
