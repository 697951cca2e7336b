"""The tables of bAbI: twenty tasks, each learned by itself or all together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from graphut.experiments.results.published import BABI_ERROR
from graphut.experiments.results.run_record import RunRecord, best_run
from graphut.experiments.results.run_table import Entry, Variant, variant_name
from graphut.experiments.tables import NOT_MEASURED, code, markdown_table, percent
from graphut.experiments.training.learners.questions import FAILED
from graphut.experiments.wording import counted

TASKS = range(1, 21)
DEPTH_OPTIONS = {"max_steps", "ponder_weight", "halting_bias", "halting_gain"}
"""The options by which the depth of a model is chosen."""
_PATHS = {"data": "DATA/tasks_1-20_v1-2"}
_DEFAULTS = {"tasks": "1", "size": "1k"}
# 150 passes over ten times the questions would take a core most of five hours, all together.
_CPU_OPTIONS: Mapping[str, Mapping[str, Any]] = {"1k": {}, "10k": {"epochs": 40}}
# The training file of qa3 in 10k is not among the data that is at hand.
_ALL = {"1k": "all", "10k": "1,2,4-20"}


def babi_entry(tasks: str, size: str) -> Entry:
    """Return the entry of some tasks, in a size; options that are defaults are left out."""
    chosen = {"tasks": tasks, "size": size}
    options = {name: value for name, value in chosen.items() if value != _DEFAULTS[name]}
    return Entry("babi", options, _PATHS, cpu_options=_CPU_OPTIONS[size], baselines=size == "1k",
                 keys=["tasks", "size"])  # fmt: skip


def joint_entry(size: str) -> Entry:
    """Return the entry of all tasks for which there is data, learned together."""
    return babi_entry(_ALL[size], size)


ENTRIES = [
    *(babi_entry(str(task), size) for size in _ALL for task in TASKS),
    *map(joint_entry, _ALL),
]
"""The entries of bAbI, of which `babi_table` makes tables."""


def babi_table(runs: Sequence[RunRecord], size: str, *, joint: bool) -> str:
    """Return the table of errors and steps of each variant on each task.

    Of several seeds it has the one that is best on the validation set. If `joint`, one model has
    learned all tasks of the size ("1k" or "10k"); else each task has its own model.
    """
    entries = [joint_entry(size)] if joint else [babi_entry(str(task), size) for task in TASKS]
    columns = list(_columns(entries, runs))
    head = ["task", *(column.title for column in columns), "published"]
    measured = [task for task in TASKS if any(task in column.by_task for column in columns)]
    rows = [[f"qa{task}", *(column.cell(task) for column in columns), ""] for task in measured]
    average, failed = zip(*(column.summary() for column in columns), strict=True)
    rows.append(["average error, %", *average, BABI_ERROR[size, joint]])
    rows.append(["failed (over 5%)", *failed, ""])
    notes = "\n".join(f"- {column.note()}" for column in columns)
    return f"{markdown_table(head, rows)}\n\n{notes}"


@dataclass(frozen=True)
class _Column:
    """The runs of one variant."""

    title: str
    by_task: Mapping[int, Mapping[str, Any]]  # error and steps
    seeds: Sequence[int]
    commands: Sequence[str]  # of the first run
    missing: str  # the text where there is no run

    def cell(self, task: int) -> str:
        """Return the error, and the mean steps of a sentence and of the question."""
        if task not in self.by_task:
            return NOT_MEASURED
        row = self.by_task[task]
        steps = f"{row['steps']:.2f}, {row['question_steps']:.2f}"
        return f"{percent(row['error'])} at {steps}"

    def summary(self) -> tuple[str, str]:
        """Return the mean error and the number of failed tasks, both of the measured tasks."""
        if not self.by_task:
            return self.missing, ""
        errors = [row["error"] for row in self.by_task.values()]
        of_tasks = "" if len(errors) == len(TASKS) else f" ({counted(len(errors), 'task')})"
        failed = sum(error > FAILED for error in errors)
        return percent(fmean(errors)) + of_tasks, f"{failed}{of_tasks}"

    def note(self) -> str:
        """Return the seeds, and the command."""
        counts = sorted(Counter(self.seeds).items())
        listed = ", ".join(f"{seed} ({counted(n, 'run')})" for seed, n in counts)
        seeds = f"seeds {listed}" if listed else self.missing
        return f"{self.title}: {seeds}; {code(*self.commands)}"


def _columns(entries: Sequence[Entry], runs: Sequence[RunRecord]) -> Iterator[_Column]:
    found = [_variants(entry, runs) for entry in entries]
    for variant in dict.fromkeys(variant for by_variant in found for variant in by_variant):
        by_entry = [records for by_variant in found if (records := by_variant.get(variant))]
        best = [best_run(records) for records in by_entry]
        yield _Column(
            variant_name(variant),
            {
                int(row["group"].removeprefix("qa")): row
                for record in best
                for row in record.evaluations["test"]["by_group"]
            },
            [record.setup.seed for records in by_entry for record in records],
            best[0].commands if best else [entries[0].command(variant)],
            entries[0].missing(variant[0]),
        )


def _variants(entry: Entry, runs: Sequence[RunRecord]) -> dict[Variant, list[RunRecord]]:
    """Return the variants of the entry's presets; other choices of depth have another table."""
    return {
        (preset, options): records
        for (preset, options), records in entry.variants(runs).items()
        if preset in entry.presets and not DEPTH_OPTIONS & dict(options).keys()
    }
