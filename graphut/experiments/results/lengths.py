"""Accuracy and steps against length, on the algorithmic tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphut.experiments.results.chart import Chart, Panel, Series
from graphut.experiments.results.families import FAMILIES
from graphut.experiments.results.family import Entry
from graphut.experiments.results.run_record import RunRecord

_SET = "up-to-400"
_PRESETS = ("small", "fixed", "transformer")
_SHOWN = {
    "token_accuracy": "right symbols",
    "sequence_accuracy": "right sequences",
    "encoder_steps": "steps in the encoder",
    "decoder_steps": "steps in the decoder",
}


def lengths_chart(runs: Sequence[RunRecord]) -> Chart:
    """Four panels for each task: two for what is right, and two for steps."""
    family = FAMILIES["algorithmic"]
    found = {entry.task: _measured(entry, runs) for entry in family.entries}
    return Chart(
        "Trained on lengths up to 40",
        [
            Panel(task.removeprefix("algorithmic-"), "symbols of the source", meaning, series)
            for name, meaning in _SHOWN.items()
            for task, records in found.items()
            if (series := [Series(preset, _points(r, name)) for preset, r in records.items()])
        ],
    )


def _measured(entry: Entry, runs: Sequence[RunRecord]) -> dict[str, RunRecord]:
    """Of each preset as it is, the seed that is best by validation."""
    variants = FAMILIES["algorithmic"].variants(entry, runs)
    found = {
        preset: [r for r in variants.get((preset, ()), []) if _SET in r.evaluations]
        for preset in _PRESETS
    }
    return {
        preset: max(records, key=lambda record: record.rank)
        for preset, records in found.items()
        if records
    }


def _points(record: RunRecord, name: str) -> list[tuple[float, Any]]:
    rows = record.evaluations[_SET]["by_source_length"]
    return [((row["from"] + row["to"]) / 2, row[name]) for row in rows]
