"""The tables of bAbI: twenty tasks, each learned by itself or all together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import Any

from graphut.experiments import tables
from graphut.experiments.results.published import BABI_ERRORS
from graphut.experiments.results.run_record import RunRecord, did_not_train
from graphut.experiments.results.run_table import Entry, Variant, in_brackets, variant_name
from graphut.experiments.tasks.presets import SMALL, UNTIED
from graphut.experiments.training.learners.questions import FAILED
from graphut.experiments.wording import counted

TASKS = range(1, 21)
DEPTH_OPTIONS = {"max_steps", "ponder_weight", "halting_bias", "halting_gain"}
"""The options by which the depth of a model is chosen."""
_PATHS = {"data": "DATA/tasks_1-20_v1-2"}
_DEFAULTS = {"tasks": "1", "size": "1k"}
# 150 passes over ten times the questions would take a core most of five hours, all together.
_CPU_OPTIONS: Mapping[str, dict[str, Any]] = {"1k": {}, "10k": {"epochs": 40}}
# With so few questions a task is best learned by a model that can learn little by heart.
_FEW_QUESTIONS = {"learning_rate": 0.003, "num_heads": 1, "d_hidden": 2,
                  "geometric_attention": True, "spread_positions": True}  # fmt: skip
# The training file of qa3 in 10k is not among the data that is at hand.
_ALL = {"1k": "all", "10k": "1,2,4-20"}
_STAR = "- \\*: one of the runs did not train; the averages count it."
_PUBLISHED = ("published, best of ten", "published, mean of ten")


def babi_entry(tasks: str, size: str) -> Entry:
    """Return the entry of some tasks, in a size; options that are defaults are left out."""
    chosen = {"tasks": tasks, "size": size}
    options = {name: value for name, value in chosen.items() if value != _DEFAULTS[name]}
    also = _FEW_QUESTIONS if size == "1k" and tasks != _ALL[size] else {}
    return Entry("babi", options, _PATHS, cpu_options=_CPU_OPTIONS[size], baselines=size == "1k",
                 keys=["tasks", "size"], also=also,
                 also_name="narrow, geometric attention")  # fmt: skip


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

    Of several seeds it has mean and deviation. If `joint`, one model has learned all tasks of the
    size ("1k" or "10k"); else each task has its own model. Trials stand in the table of
    `babi_trials`.
    """
    found = _columns(_entries(size, joint=joint), runs)
    columns = [column for column in found if not column.is_trial]
    head = ["task", *(column.title for column in columns), *_PUBLISHED]
    measured = [task for task in TASKS if any(task in column.by_task for column in columns)]
    rows = [
        [
            f"qa{task}",
            *(column.cell(task) for column in columns),
            *published_errors(size, [task], joint=joint),
        ]
        for task in measured
    ]
    average, failed = zip(*(column.summary() for column in columns), strict=True)
    published = published_errors(size, measured or TASKS, joint=joint)
    rows.append(["average error, %", *average, *published])
    rows.append(["failed (over 5%)", *failed, "", ""])
    notes = [f"- {column.note()}" for column in columns]
    if any(any(map(column.has_failed, column.by_task)) for column in columns):
        notes.append(_STAR)
    return "\n".join([tables.markdown_table(head, rows), "", *notes])


def babi_trials(runs: Sequence[RunRecord]) -> str:
    """Return the table of trials: options that differ from a preset, and their errors.

    The last column is the error of the preset itself, on the same tasks. A star marks a run that
    did not train.
    """
    head = ["questions", "tried", "error, %", "mean", "mean of the preset"]
    rows = []
    for size, joint in BABI_ERRORS:
        columns = list(_columns(_entries(size, joint=joint), runs))
        # The first column of a preset is the preset itself.
        presets = {column.preset: column for column in reversed(columns) if not column.is_trial}
        how = "together" if joint else "one by one"
        for column in (column for column in columns if column.is_trial):
            each = ", ".join(f"qa{n} {column.mean_error(n)}" for n in column.by_task)
            means = [own.mean_of(column.by_task) for own in (column, presets[column.preset])]
            rows.append([f"{size}, {how}", column.title, each, *means])
    return tables.markdown_table(head, rows)


def babi_averages(
    runs: Sequence[RunRecord], size: str, presets: Iterable[str], *, joint: bool
) -> list[list[str]]:
    """Return, for each preset, the average errors of its variants that are no trials."""
    ours = [c for c in _columns(_entries(size, joint=joint), runs) if c.by_task and not c.is_trial]
    return [[c.in_short() for c in ours if c.preset == preset] for preset in presets]


def babi_published(runs: Sequence[RunRecord], size: str, *, joint: bool) -> str:
    """Return the paper's average errors on the tasks on which `small` was measured."""
    ours = _columns(_entries(size, joint=joint), runs)
    found = [c.by_task for c in ours if c.preset == SMALL and c.by_task and not c.is_trial]
    best, mean = published_errors(size, found[0] if found else TASKS, joint=joint)
    return f"UT {best} (best of ten runs), {mean} (mean of ten)"


def published_errors(size: str, tasks: Collection[int], *, joint: bool) -> list[str]:
    """Return the paper's mean error on some tasks in percent: of its best runs, and of all ten."""
    return [
        f"{fmean(errors[task - 1] for task in tasks):.2f}" for errors in BABI_ERRORS[size, joint]
    ]


def _entries(size: str, *, joint: bool) -> list[Entry]:
    return [joint_entry(size)] if joint else [babi_entry(str(task), size) for task in TASKS]


@dataclass(frozen=True)
class _Column:
    """The runs of one variant."""

    preset: str | None
    is_trial: bool  # True if it is not among the variants that are to be measured
    title: str
    short_name: str  # nothing for a preset as it is asked for
    # Of each run: error, steps, seed, and if it has failed to train.
    by_task: Mapping[int, Sequence[Mapping[str, Any]]]
    seeds: Sequence[int]
    commands: Sequence[str]  # of the first run
    missing: str  # the text where there is no run

    def error(self, task: int) -> float:
        """Return the mean error of the seeds."""
        return fmean(row["error"] for row in self.by_task[task])

    def has_failed(self, task: int) -> bool:
        """Return whether a run on the task did not train."""
        return any(row["failed"] for row in self.by_task[task])

    def mean_error(self, task: int) -> str:
        """Return the mean error and the deviation of the seeds, with a star if one has failed."""
        errors = [row["error"] for row in self.by_task[task]]
        return tables.mean_and_deviation(errors, tables.percent) + "\\*" * self.has_failed(task)

    def in_short(self) -> str:
        """Return the mean error of the tasks for the summary."""
        return f"{self.summary()[0]} {in_brackets(self.short_name, len({*self.seeds}))}"

    def mean_of(self, tasks: Collection[int]) -> str:
        """Return the mean error on some tasks."""
        if not self.by_task.keys() >= set(tasks):
            return tables.NOT_MEASURED
        return tables.percent(fmean(map(self.error, tasks)))

    def cell(self, task: int) -> str:
        """Return the error, and the mean steps of a sentence and of the question."""
        if task not in self.by_task:
            return tables.NOT_MEASURED
        rows = self.by_task[task]
        steps, own = (fmean(row[name] for row in rows) for name in ("steps", "question_steps"))
        return f"{self.mean_error(task)} at {steps:.2f}, {own:.2f}"

    def summary(self) -> tuple[str, str]:
        """Return the mean error and the number of failed tasks, both of the measured tasks.

        A mean over the tasks is taken for each seed that all of them have; a task has failed by
        the mean of its seeds.
        """
        if not self.by_task:
            return self.missing, ""
        errors = [{row["seed"]: row["error"] for row in rows} for rows in self.by_task.values()]
        of_tasks = "" if len(errors) == len(TASKS) else f" ({counted(len(errors), 'task')})"
        failed = sum(self.error(task) > FAILED for task in self.by_task)
        seeds = set.intersection(*map(set, errors))
        averages = [fmean(of_seeds[seed] for of_seeds in errors) for seed in sorted(seeds)]
        return tables.mean_and_deviation(averages, tables.percent) + of_tasks, f"{failed}{of_tasks}"

    def note(self) -> str:
        """Return the seeds, and the command."""
        counts = sorted(Counter(self.seeds).items())
        listed = ", ".join(f"{seed} ({counted(n, 'run')})" for seed, n in counts)
        seeds = f"seeds {listed}" if listed else self.missing
        return f"{self.title}: {seeds}; {tables.code(*self.commands)}"


def _columns(entries: Sequence[Entry], runs: Sequence[RunRecord]) -> Iterator[_Column]:
    found = [_variants(entry, runs) for entry in entries]
    for variant in dict.fromkeys(variant for by_variant in found for variant in by_variant):
        # Each run beside all runs on the same data.
        by_entry = [
            (record, [*chain.from_iterable(by_variant.values())])
            for by_variant in found
            for record in by_variant.get(variant, [])
        ]
        by_entry.sort(key=lambda one: one[0].setup.seed)
        measured = [record for record, _ in by_entry]
        by_task: dict[int, list[Mapping[str, Any]]] = {}
        for record, others in by_entry:
            more = {"seed": record.setup.seed, "failed": did_not_train(record, others)}
            for row in record.evaluations["test"]["by_group"]:
                task = int(row["group"].removeprefix("qa"))
                by_task.setdefault(task, []).append({**row, **more})
        first = measured[0] if measured else None
        yield _Column(
            variant[0],
            variant not in entries[0].asked,
            variant_name(variant),
            entries[0].short_name(variant),
            by_task,
            [record.setup.seed for record in measured],
            [entries[0].command(variant)] if first is None else first.commands,
            entries[0].missing(variant[0]),
        )


def _variants(entry: Entry, runs: Sequence[RunRecord]) -> dict[Variant, list[RunRecord]]:
    """Return the variants of the entry's presets.

    Those that differ in nothing but the choice of the depth have another table.
    """
    found = {}
    for (preset, options), records in entry.variants(runs).items():
        others = dict(options).keys() - entry.cpu_options.keys()
        is_depth = others and others <= DEPTH_OPTIONS
        if preset in (*entry.presets, UNTIED) and not is_depth:
            found[preset, options] = records
    return found
