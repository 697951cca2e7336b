"""Accuracy by compute: one depth for all nodes, or a depth for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from graphut.experiments import tables
from graphut.experiments.results.babi import DEPTH_OPTIONS, babi_entry
from graphut.experiments.results.line_chart import Chart, Panel, Series
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.results.run_table import Entry, Variant, seeds_of, variant_name
from graphut.experiments.results.task_tables import TASK_TABLES
from graphut.experiments.tasks import TASK_PRESETS


@dataclass(frozen=True)
class DepthComparison:
    """A task on which depths are compared."""

    title: str
    entry: Entry
    measure: str  # a number of the evaluation on `test`
    meaning: str  # the measure in words


COMPARISONS = (
    DepthComparison("copy", Entry("copy"), "sequence_accuracy", "right sequences"),
    DepthComparison("sort", Entry("sort"), "sequence_accuracy", "right sequences"),
    DepthComparison("bAbI, 1k, qa15", babi_entry("15", "1k"), "accuracy", "right answers"),
    DepthComparison("bAbI, 10k, qa14", babi_entry("14", "10k"), "accuracy", "right answers"),
    DepthComparison("characters", TASK_TABLES["char-lm"].entries[0], "bits", "bits a character"),
)


def depth_table(runs: Sequence[RunRecord]) -> str:
    """Return the table of all fixed depths, and of adaptive depth, on each task."""
    head = ["task", "depth", "measure", "value", "FLOPs", "share of all", "seeds", "command"]
    rows = [
        [task.title, _depth_name(variant), task.meaning, *_cells(task, variant, records)]
        for task in COMPARISONS
        for variant, records in _variants(task, runs).items()
    ]
    return tables.markdown_table(head, rows)


def depth_chart(runs: Sequence[RunRecord]) -> Chart:
    """Return a chart with a panel for each task."""
    return Chart(
        "Accuracy against compute: the same depth for all, and a depth for each",
        [panel for task in COMPARISONS if (panel := _panel(task, runs))],
    )


def _variants(task: DepthComparison, runs: Sequence[RunRecord]) -> dict[Variant, list[RunRecord]]:
    """Return the fixed depths, from 1 on, and then the other runs of the same model.

    Its steps share weights, and nothing but the choice of the depth differs from the presets.
    """
    found = task.entry.variants(runs)
    fixed: dict[Variant, list[RunRecord]] = {
        variant: found.pop(variant, []) for variant in _fixed_depths(task.entry)
    }
    adaptive = task.entry.variant("small")
    others = {
        variant: records
        for variant, records in found.items()
        if {name for name, _ in {*variant[1]} ^ {*adaptive[1]}} <= DEPTH_OPTIONS
        and (variant == adaptive or any(record.model["share_weights"] for record in records))
    }
    return fixed | others


def _fixed_depths(entry: Entry) -> list[Variant]:
    """Return depths 1, 2, ... up to that of the preset `fixed`, which needs no option for it."""
    name, options = entry.variant("fixed")
    deepest = TASK_PRESETS.get(entry.task, {}).get("fixed", {}).get("max_steps", 8)
    shallower: list[Variant] = [(name, (*options, ("max_steps", n))) for n in range(1, deepest)]
    return [*shallower, (name, options)]


def _depth_name(variant: Variant) -> str:
    return variant_name(variant).replace("small", "adaptive", 1)


def _cells(task: DepthComparison, variant: Variant, records: Sequence[RunRecord]) -> list[str]:
    if not records:
        return ["not measured yet", "", "", "", tables.code(task.entry.command(variant))]
    found = [record.evaluations["test"] for record in records]
    form = tables.two_decimals if task.measure == "bits" else tables.share
    return [
        tables.mean_and_deviation([own[task.measure] for own in found], form),
        tables.with_prefix(fmean(own["flops_per_example"] for own in found)),
        f"{tables.percent(fmean(own['flops_share'] for own in found))}%",
        seeds_of(records),
        tables.code(*min(records, key=lambda record: record.setup.seed).commands),
    ]


def _panel(task: DepthComparison, runs: Sequence[RunRecord]) -> Panel | None:
    points: dict[str, list[tuple[float, float]]] = {}
    for (preset, options), records in _variants(task, runs).items():
        # Runs that differ in nothing but the choice of the depth make one series.
        rest = tuple((name, value) for name, value in options if name not in DEPTH_OPTIONS)
        for record in records:
            found = record.evaluations["test"]
            point = (found["flops_per_example"] / 1e6, found[task.measure])
            points.setdefault(_depth_name((preset, rest)), []).append(point)
    if not points:
        return None
    # Seeds of an adaptive model are points without a line: the model chose their depth.
    series = [Series(label, sorted(p), label.startswith("fixed")) for label, p in points.items()]
    return Panel(task.title, "MFLOPs", task.meaning, series)
