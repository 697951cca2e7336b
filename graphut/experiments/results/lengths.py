"""The chart of accuracy and steps by length, on the algorithmic tasks."""

from __future__ import annotations

from collections.abc import Sequence

from graphut.experiments.results.line_chart import Chart, Panel, Series
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.results.task_tables import TASK_TABLES
from graphut.experiments.tasks.presets import BASELINES, SMALL

_SET = "up-to-400"
_MEASURES = {
    "token_accuracy": "right symbols",
    "sequence_accuracy": "right sequences",
    "encoder_steps": "steps in the encoder",
    "decoder_steps": "steps in the decoder",
}


def lengths_chart(runs: Sequence[RunRecord]) -> Chart:
    """Return a chart with four panels for each task: two of accuracy, and two of steps."""
    by_task = {
        entry.task: {
            preset: record
            for preset in (SMALL, *BASELINES)  # without further options
            if (record := entry.best((preset, ()), _SET, runs)) is not None
        }
        for entry in TASK_TABLES["algorithmic"].entries
    }
    return Chart(
        "Trained on lengths up to 40",
        [
            Panel(task.removeprefix("algorithmic-"), "symbols of the source", meaning, series)
            for measure, meaning in _MEASURES.items()
            for task, records in by_task.items()
            if (series := [Series(name, _points(r, measure)) for name, r in records.items()])
        ],
    )


def _points(record: RunRecord, measure: str) -> list[tuple[float, float]]:
    rows = record.evaluations[_SET]["by_source_length"]
    return [((row["from"] + row["to"]) / 2, row[measure]) for row in rows]
