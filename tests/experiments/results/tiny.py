"""Presets of a second, and records that nobody has measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from graphut.experiments.cli.options import build, field_names
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.tasks import TASK_PRESETS, TASKS, GraphTask, preset_of
from graphut.experiments.tasks.presets import with_baselines
from graphut.experiments.training import TrainingConfig, learner_of

_TINY = {"d_model": 8, "num_heads": 2, "d_hidden": 8, "max_steps": 2, "epochs": 2, "batch_size": 8}
_SORT = {**_TINY, "mean_length": 3, "length_deviation": 1, "epoch_size": 16, "held_out": 4}
TINY_PRESETS = {
    "sort": with_baselines(_SORT, {"d_model": 4}),
    "copy": with_baselines(_SORT, {"d_model": 4}),
    "babi": with_baselines(_TINY, {"d_model": 4}),
    "char-lm": with_baselines(_TINY, {"d_model": 4}),
    "algorithmic-copy": with_baselines(_TINY, {"d_model": 4}),
    "agreement": with_baselines(_TINY, {"d_model": 4}),
}
VALIDATION: dict[str, dict[str, Any]] = {
    "babi": {"accuracy": 0.5, "log_probability": -1.0, "groups": 1, "failed": 1, "steps": 1.0,
             "question_steps": 1.0},
    "char-lm": {"nats": 1.0, "accuracy": 0.5, "steps": 1.5},
    "agreement": {"accuracy": 0.5, "balanced_accuracy": 0.5, "nats": 1.0, "steps": 1.0,
                  "verb_steps": 1.0},
}  # fmt: skip
VALIDATION |= {
    task: {
        "accuracy": 0.5, "graph_accuracy": 0.25, "log_probability": -1.0, "steps": 3.0,
        "rank_correlation": 0.5, "work_ratio": 1.5,
    }
    for task in ("graph-distance", "graph-path", "graph-bfs", "sudoku")
}  # fmt: skip
PAIRS = {
    "sequence_accuracy": 0.5,
    "token_accuracy": 0.5,
    "encoder_steps": 1.0,
    "decoder_steps": 2.0,
}


def make_record(
    task: str,
    preset: str | None = "small",
    options: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    validation: Mapping[str, Any] | None = None,
    training_accuracy: float = 0.5,
    **evaluations: Mapping[str, Any],
) -> RunRecord:
    """A record with some evaluations; its validation is half right, unless said otherwise."""
    learner = learner_of(TASKS[task])
    sizes = dict.fromkeys(learner.from_task, 28)
    if issubclass(TASKS[task], GraphTask):
        sizes = learner.sizes(TASKS[task]())
    chosen = {**(preset_of(task, preset) if TASK_PRESETS.get(task) else {}), **(options or {})}
    judged = {**VALIDATION.get(task, PAIRS), **(validation or {})}
    return RunRecord(
        name=f"{task}-{preset}-{len(chosen)}-{seed}",
        task=task,
        task_options={name: chosen[name] for name in field_names(TASKS[task]) if name in chosen},
        training=asdict(build(TrainingConfig, {**chosen, "seed": seed})),
        model=build(learner.config_kind, chosen, **sizes).to_dict(),
        weights=1234,
        graphut="0.1.0",
        machines=[{"cpu": "Abacus 9", "gpu": None, "threads": 2}],
        seconds=90.0,
        updates=2000,
        epochs=2,
        best_epoch=1,
        end="all 2 epochs are done",
        metrics={"epoch": [1, 2], "accuracy": [0.25, training_accuracy]},
        validation=judged,
        evaluations={
            name.replace("_", "-"): {"options": {}, **found} for name, found in evaluations.items()
        },
    )


def cells(table: str) -> list[list[str]]:
    """The cells of a table's rows, its head first."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [rows[0], *rows[2:]]


def row(table: str, *first: str) -> dict[str, str]:
    """The row that begins with some cells, by the heads of its columns."""
    head, *rows = cells(table)
    [found] = [cells for cells in rows if cells[: len(first)] == list(first)]
    return dict(zip(head, found, strict=True))
