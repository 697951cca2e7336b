"""The tables of bAbI: twenty tasks, each learned by itself or all together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from graphut.experiments.results.family import Entry, Family, Variant, variant_name
from graphut.experiments.results.markdown import NOTHING, code, number, percent, table
from graphut.experiments.results.paper import BABI_ERROR
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.training.learners.questions import FAILED
from graphut.experiments.wording import counted

TASKS = range(1, 21)
CHOOSE_DEPTH = {"max_steps", "ponder_weight", "halting_bias", "halting_gain"}
"""What the depth of a model is chosen by."""
FAMILY = Family([], [], keys=["tasks", "size"])
_PATHS = {"data": "DATA/tasks_1-20_v1-2"}
# An entry has the options alone that are not the usual ones.
_USUAL = {"tasks": "1", "size": "1k"}
# As many passes over ten times the questions would take a core most of five hours, all together.
_BRIEF: Mapping[str, Mapping[str, Any]] = {"1k": {}, "10k": {"epochs": 40}}
# The training file of qa3 in 10k is not among the data that is at hand.
_ALL = {"1k": "all", "10k": "1,2,4-20"}


def babi_entry(tasks: str, size: str) -> Entry:
    """Tasks, in a size."""
    chosen = {"tasks": tasks, "size": size}
    options = {name: value for name, value in chosen.items() if value != _USUAL[name]}
    return Entry("babi", options, _PATHS, brief=_BRIEF[size], baselines=size == "1k")


def joint_entry(size: str) -> Entry:
    """All tasks, as far as there is data."""
    return babi_entry(_ALL[size], size)


ENTRIES = (
    *(babi_entry(str(task), size) for size in _ALL for task in TASKS),
    *map(joint_entry, _ALL),
)


def babi_table(runs: Sequence[RunRecord], size: str, *, joint: bool) -> str:
    """Errors and steps of each variant on each task: of several seeds, of the one best on
    validation.

    Parameters
    ----------
    runs : sequence of RunRecord
        All there are.
    size : str
        "1k" or "10k".
    joint : bool
        Whether one model has learned all tasks, or each its own.
    """
    columns = _joint(runs, size) if joint else _single(runs, size)
    head = ["task", *(column.title for column in columns), "published"]
    measured = [task for task in TASKS if any(task in column.found for column in columns)]
    rows = [[f"qa{task}", *(column.cell(task) for column in columns), ""] for task in measured]
    average = [column.average() for column in columns]
    rows.append(["average error, %", *average, BABI_ERROR[size, joint]])
    rows.append(["failed (over 5%)", *(column.failed() for column in columns), ""])
    notes = "\n".join(f"- {column.note()}" for column in columns)
    return f"{table(head, rows)}\n\n{notes}"


@dataclass(frozen=True)
class _Column:
    """What was found of a variant.

    Parameters
    ----------
    title : str
        The variant.
    found : mapping of int to mapping
        Of those tasks that were measured, error and steps.
    seeds : list of int
        Of all runs.
    commands : list of str
        Of a run, the first one.
    missing : str
        What is said where there is no run.
    """

    title: str
    found: Mapping[int, Mapping[str, Any]]
    seeds: Sequence[int]
    commands: Sequence[str]
    missing: str

    def cell(self, task: int) -> str:
        """The error, and mean steps of a sentence and of the question."""
        if task not in self.found:
            return NOTHING
        row = self.found[task]
        steps = ", ".join(number(row[name]) for name in ("steps", "question_steps"))
        return f"{percent(row['error'])} at {steps}"

    def average(self) -> str:
        if not self.found:
            return self.missing
        return percent(fmean(row["error"] for row in self.found.values())) + self._count()

    def failed(self) -> str:
        if not self.found:
            return ""
        return f"{sum(row['error'] > FAILED for row in self.found.values())}{self._count()}"

    def note(self) -> str:
        """Seeds, and the command."""
        counts = Counter(self.seeds)
        said = ", ".join(f"{seed} ({counted(n, 'run')})" for seed, n in sorted(counts.items()))
        return f"{self.title}: {f'seeds {said}' if said else self.missing}; " + code(*self.commands)

    def _count(self) -> str:
        return "" if len(self.found) == len(TASKS) else f" ({counted(len(self.found), 'task')})"


def _single(runs: Sequence[RunRecord], size: str) -> list[_Column]:
    by_task = {task: _variants(babi_entry(str(task), size), runs) for task in TASKS}
    variants = dict.fromkeys(variant for found in by_task.values() for variant in found)
    return [
        _column(variant, {task: found.get(variant, []) for task, found in by_task.items()}, size)
        for variant in variants
    ]


def _column(variant: Variant, found: Mapping[int, Sequence[RunRecord]], size: str) -> _Column:
    best = {task: _best(records) for task, records in found.items() if records}
    commands = next((r.commands for r in best.values()), _commands(babi_entry("1", size), variant))
    return _Column(
        variant_name(variant),
        {task: _by_group(record)[task] for task, record in best.items()},
        [record.setup.seed for records in found.values() for record in records],
        commands,
        babi_entry("1", size).missing(variant[0]),
    )


def _joint(runs: Sequence[RunRecord], size: str) -> list[_Column]:
    return [
        _Column(
            variant_name(variant),
            _by_group(_best(records)) if records else {},
            [record.setup.seed for record in records],
            _best(records).commands if records else _commands(joint_entry(size), variant),
            joint_entry(size).missing(variant[0]),
        )
        for variant, records in _variants(joint_entry(size), runs).items()
    ]


def _variants(entry: Entry, runs: Sequence[RunRecord]) -> dict[Variant, list[RunRecord]]:
    """Those of the entry's presets, but for other choices of depth, which have their own table."""
    return {
        (preset, options): records
        for (preset, options), records in FAMILY.variants(entry, runs).items()
        if preset in entry.presets and not CHOOSE_DEPTH & dict(options).keys()
    }


def _by_group(record: RunRecord) -> dict[int, Mapping[str, Any]]:
    rows = record.evaluations["test"]["by_group"]
    return {int(row["group"].removeprefix("qa")): row for row in rows}


def _best(records: Sequence[RunRecord]) -> RunRecord:
    return max(records, key=lambda record: record.rank)


def _commands(entry: Entry, variant: Variant) -> list[str]:
    preset, rest = variant
    return [entry.setup(preset, dict(rest)).command()]
