"""A table of runs: what is to be measured, and what was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphut.experiments.bench.table import digits
from graphut.experiments.results.machine import machine_name
from graphut.experiments.results.markdown import NOTHING, code, share, table
from graphut.experiments.results.paper import PUBLISHED, Published
from graphut.experiments.results.run_record import RunRecord, eval_command
from graphut.experiments.results.setup import DATA, Setup, option_words
from graphut.experiments.tasks import TASK_PRESETS
from graphut.experiments.tasks.presets import BASELINES

Values = Callable[[Mapping[str, Any]], Sequence[float]]
Variant = tuple[str | None, tuple[tuple[str, Any], ...]]
"""A preset, and options that differ from it and are no entry's."""

NO_GPU = "many hours without a GPU"


def _needs_gpu(preset: str | None) -> bool:
    return preset == "paper"


@dataclass(frozen=True)
class Column:
    """What is shown of an evaluation.

    Parameters
    ----------
    title : str
        Its head.
    test_set : str
        Whose evaluation.
    values : callable
        Numbers of the evaluation, which stand beside each other.
    form : callable
        How a number is written.
    """

    title: str
    test_set: str
    values: Values
    form: Callable[[float], str] = share

    def cell(self, best: RunRecord, seeds: Sequence[RunRecord]) -> str:
        """Values of the best seed, and from the least to the greatest of all seeds."""
        columns = [self._values(record) for record in seeds if self.test_set in record.evaluations]
        if self.test_set not in best.evaluations:
            return NOTHING
        return " / ".join(
            self._number(value, [found[place] for found in columns])
            for place, value in enumerate(self._values(best))
        )

    def _values(self, record: RunRecord) -> Sequence[float]:
        return self.values(record.evaluations[self.test_set])

    def _number(self, value: float, of_seeds: Sequence[float]) -> str:
        ends = [self.form(end) for end in (min(of_seeds), max(of_seeds))]
        spread = f" ({ends[0]} to {ends[1]})" if len(of_seeds) > 1 else ""
        return self.form(value) + spread


@dataclass(frozen=True)
class Entry:
    """What is to be measured.

    Parameters
    ----------
    task : str
        A key of `TASKS`.
    options : mapping
        What makes it this entry: options that are not as any preset has them.
    paths : mapping
        Where its data is, in the commands.
    label : str
        What it is called; the task, if not given.
    reason : str
        Why nothing is measured, where nothing is and no preset says why.
    brief : mapping
        What presets that need no GPU are run with, so that it does not take too long.
    gpu_paths : mapping
        Of `paths`, those that are others with presets that need a GPU: files that are not at hand.
    judging : mapping
        Options of `graphut eval`.
    baselines : bool
        Whether `small` is compared with models of the same size on this, or on another entry of
        the table alone.
    """

    task: str
    options: Mapping[str, Any] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    reason: str = ""
    brief: Mapping[str, Any] = field(default_factory=dict)
    gpu_paths: Mapping[str, str] = field(default_factory=dict)
    judging: Mapping[str, Any] = field(default_factory=dict)
    baselines: bool = True

    @property
    def presets(self) -> list[str | None]:
        """Those of the task that are to be measured."""
        found: list[str | None] = [*TASK_PRESETS.get(self.task, {})] or [None]
        return [preset for preset in found if self.baselines or preset not in BASELINES]

    def setup(self, preset: str | None, options: Mapping[str, Any]) -> Setup:
        """What is asked for with a preset and more options."""
        paths = {**self.paths, **(self.gpu_paths if _needs_gpu(preset) else {})}
        return Setup(self.task, preset, {**paths, **self.options, **options})

    def variant(self, preset: str | None) -> Variant:
        """How a preset is run."""
        return preset, () if _needs_gpu(preset) else tuple(self.brief.items())

    def missing(self, preset: str | None) -> str:
        """What stands in the place of a measurement: that there is none, and why."""
        reason = self.reason
        if not reason and _needs_gpu(preset):
            reason = NO_GPU + (", not all files are here" if self.gpu_paths else "")
        return f"not measured yet ({reason})" if reason else "not measured yet"


@dataclass(frozen=True)
class Family:
    """A table of runs.

    Parameters
    ----------
    entries : sequence of Entry
        What is to be measured.
    columns : sequence of Column
        What is shown.
    keys : sequence of str
        Options that tell one entry from another.
    published : mapping
        Rows of others, by the label of the entry that they stand under.
    """

    entries: Sequence[Entry]
    columns: Sequence[Column]
    keys: Sequence[str] = ()
    published: Mapping[str, Sequence[Published]] = field(default_factory=lambda: PUBLISHED)

    def table(self, runs: Sequence[RunRecord]) -> str:
        """The table, with what is not measured yet."""
        head = ["task", "model", *(column.title for column in self.columns)]
        head += ["weights", "updates", "minutes", "on", "seed", "command"]
        rows = [row for entry in self.entries for row in self._rows(entry, runs)]
        return table(head, rows)

    def variants(self, entry: Entry, runs: Sequence[RunRecord]) -> dict[Variant, list[RunRecord]]:
        """The runs of an entry, by variant; what is wanted is there, others as they were run."""
        found: dict[Variant, list[RunRecord]] = {entry.variant(name): [] for name in entry.presets}
        for record in runs:
            setup = record.setup
            asked = self._chosen({**entry.options, **entry.paths})
            same = setup.task == entry.task and self._chosen(setup.options) == asked
            if same and all(judging == entry.judging for judging in record.judging.values()):
                rest = {k: v for k, v in setup.options.items() if not self._tells(k, v)}
                found.setdefault((setup.preset, tuple(rest.items())), []).append(record)
        return found

    def _chosen(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Which entry options are of."""
        return {
            name: value if name in self.keys else DATA
            for name, value in options.items()
            if self._tells(name, value)
        }

    def _tells(self, name: str, value: Any) -> bool:
        """Whether an option tells entries apart; of a path, that it is given may be enough."""
        return name in self.keys or (isinstance(value, str) and value.startswith(DATA))

    def _rows(self, entry: Entry, runs: Sequence[RunRecord]) -> list[list[str]]:
        label = entry.label or entry.task
        rows = [
            [label, variant_name(variant), *self._cells(entry, variant, records)]
            for variant, records in self.variants(entry, runs).items()
        ]
        for other in self.published.get(label, ()):
            cells = [other.cells.get(column.title, "") for column in self.columns]
            rows.append([label, other.who, *cells, *[""] * 5, other.source])
        return rows

    def _cells(self, entry: Entry, variant: Variant, records: Sequence[RunRecord]) -> list[str]:
        if not records:
            return self._missing(entry, *variant)
        best = max(records, key=lambda record: record.rank)
        return [
            *(column.cell(best, records) for column in self.columns),
            f"{best.weights:,}",
            f"{best.updates:,}",
            digits(best.seconds / 60),
            machine_name(best.machines),
            seeds(best, records),
            code(*best.commands),
        ]

    def _missing(
        self, entry: Entry, preset: str | None, rest: tuple[tuple[str, Any], ...]
    ) -> list[str]:
        empty = [""] * (len(self.columns) - 1 + 5)
        # Training ends with the set `test`.
        others = any(column.test_set != "test" for column in self.columns)
        judging = [eval_command(entry.judging)] if others or entry.judging else []
        command = entry.setup(preset, dict(rest)).command()
        return [entry.missing(preset), *empty, code(command, *judging)]


def variant_name(variant: Variant) -> str:
    """A variant, as options of the command line.

    Examples
    --------
    >>> variant_name(("small", (("max_steps", 3),)))
    'small --max-steps 3'
    """
    preset, rest = variant
    words = [preset] if preset else []
    words += [word for name, value in rest for word in option_words(name, value)]
    return " ".join(words) or "defaults"


def seeds(best: RunRecord, records: Sequence[RunRecord]) -> str:
    """All seeds, and which of them is the best on the validation set."""
    numbers = sorted(record.setup.seed for record in records)
    if len(numbers) == 1:
        return str(numbers[0])
    return f"{best.setup.seed} of {', '.join(map(str, numbers))}"
