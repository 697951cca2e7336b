"""A table of runs: what is to be measured, and what was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphut.experiments.machine import machine_name
from graphut.experiments.results.published import PUBLISHED
from graphut.experiments.results.run_record import RunRecord, best_run, eval_command
from graphut.experiments.results.run_setup import DATA, Setup, option_words
from graphut.experiments.tables import NOT_MEASURED, code, markdown_table, share, three_digits
from graphut.experiments.tasks import TASK_PRESETS
from graphut.experiments.tasks.presets import BASELINES

Values = Callable[[Mapping[str, Any]], Sequence[float]]
Variant = tuple[str | None, tuple[tuple[str, Any], ...]]
"""A preset, and options that differ from it and do not belong to an entry."""


@dataclass(frozen=True)
class Column:
    """A column with numbers of an evaluation."""

    title: str
    test_set: str
    values: Values  # the numbers that stand beside each other in a cell
    form: Callable[[float], str] = share

    def cell(self, best: RunRecord, seeds: Sequence[RunRecord]) -> str:
        """Return the values of the best seed, and the range of all seeds."""
        if self.test_set not in best.evaluations:
            return NOT_MEASURED
        judged = [record for record in seeds if self.test_set in record.evaluations]
        of_seeds = zip(*map(self._values, judged), strict=True)
        return " / ".join(map(self._number, self._values(best), of_seeds))

    def _values(self, record: RunRecord) -> Sequence[float]:
        return self.values(record.evaluations[self.test_set])

    def _number(self, value: float, of_seeds: Sequence[float]) -> str:
        low, high = self.form(min(of_seeds)), self.form(max(of_seeds))
        return self.form(value) + (f" ({low} to {high})" if len(of_seeds) > 1 else "")


@dataclass(frozen=True)
class Entry:
    """A task with some options, to be measured with each preset."""

    task: str  # a key of `TASKS`
    options: Mapping[str, Any] = field(default_factory=dict)  # that no preset has
    paths: Mapping[str, str] = field(default_factory=dict)  # of the data, in the commands
    label: str = ""  # the name in the table; the task, if not given
    reason: str = ""  # why nothing is measured, where no preset says why
    # Options of presets that need no GPU, with which they do not take too long.
    cpu_options: Mapping[str, Any] = field(default_factory=dict)
    # Paths that differ with presets that need a GPU: files that are not at hand.
    gpu_paths: Mapping[str, str] = field(default_factory=dict)
    eval_options: Mapping[str, Any] = field(default_factory=dict)  # of `graphut eval`
    # False if models of the same size are compared on another entry of the table alone.
    baselines: bool = True
    keys: Sequence[str] = ()  # options that tell this entry from others of the task

    @property
    def presets(self) -> list[str | None]:
        """The presets of the task that are to be measured."""
        found: list[str | None] = [*TASK_PRESETS.get(self.task, {})] or [None]
        return [preset for preset in found if self.baselines or preset not in BASELINES]

    def command(self, variant: Variant) -> str:
        """Return the command line that trains a variant."""
        preset, options = variant
        paths = {**self.paths, **(self.gpu_paths if _needs_gpu(preset) else {})}
        return Setup(self.task, preset, {**paths, **self.options, **dict(options)}).command()

    def variant(self, preset: str | None) -> Variant:
        """Return the variant in which a preset is measured."""
        return preset, () if _needs_gpu(preset) else tuple(self.cpu_options.items())

    def missing(self, preset: str | None) -> str:
        """Return the text that stands in place of a measurement: there is none, and why."""
        reason = self.reason
        if not reason and _needs_gpu(preset):
            reason = "many hours without a GPU"
            reason += ", not all files are here" if self.gpu_paths else ""
        return f"not measured yet ({reason})" if reason else "not measured yet"

    def variants(self, runs: Sequence[RunRecord]) -> dict[Variant, list[RunRecord]]:
        """Return the runs of this entry, by variant: the variants to be measured, then others."""
        found: dict[Variant, list[RunRecord]] = {self.variant(name): [] for name in self.presets}
        asked = self._key_options({**self.options, **self.paths})
        for record in runs:
            setup = record.setup
            same = setup.task == self.task and self._key_options(setup.options) == asked
            if same and all(o == self.eval_options for o in record.eval_options.values()):
                rest = {k: v for k, v in setup.options.items() if not self._is_key(k, v)}
                found.setdefault((setup.preset, tuple(rest.items())), []).append(record)
        return found

    def best(self, variant: Variant, test_set: str, runs: Sequence[RunRecord]) -> RunRecord | None:
        """Return the best run of a variant that was judged on a set, if there is one."""
        found = self.variants(runs).get(variant, [])
        judged = [record for record in found if test_set in record.evaluations]
        return best_run(judged) if judged else None

    def _key_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that tell entries apart; of other paths, only that they are given."""
        return {
            name: value if name in self.keys else DATA
            for name, value in options.items()
            if self._is_key(name, value)
        }

    def _is_key(self, name: str, value: Any) -> bool:
        return name in self.keys or (isinstance(value, str) and value.startswith(DATA))


@dataclass(frozen=True)
class RunTable:
    """A table of runs: the entries to be measured, and the columns of each."""

    entries: Sequence[Entry]
    columns: Sequence[Column]

    def markdown(self, runs: Sequence[RunRecord]) -> str:
        """Return the table, with rows for what is not measured yet."""
        head = ["task", "model", *(column.title for column in self.columns)]
        head += ["weights", "updates", "minutes", "on", "seed", "command"]
        rows = [row for entry in self.entries for row in self._rows(entry, runs)]
        return markdown_table(head, rows)

    def _rows(self, entry: Entry, runs: Sequence[RunRecord]) -> list[list[str]]:
        label = entry.label or entry.task
        rows = [
            [label, variant_name(variant), *self._cells(entry, variant, records)]
            for variant, records in entry.variants(runs).items()
        ]
        for row in PUBLISHED.get(label, ()):
            cells = [row.cells.get(column.title, "") for column in self.columns]
            rows.append([label, row.who, *cells, *[""] * 5, row.source])
        return rows

    def _cells(self, entry: Entry, variant: Variant, records: Sequence[RunRecord]) -> list[str]:
        if not records:
            return self._missing(entry, variant)
        best = best_run(records)
        return [
            *(column.cell(best, records) for column in self.columns),
            f"{best.weights:,}",
            f"{best.updates:,}",
            three_digits(best.seconds / 60),
            machine_name(best.machines),
            _seeds(best, records),
            code(*best.commands),
        ]

    def _missing(self, entry: Entry, variant: Variant) -> list[str]:
        empty = [""] * (len(self.columns) - 1 + 5)
        # Training ends with the set `test`.
        others = any(column.test_set != "test" for column in self.columns)
        judging = [eval_command(entry.eval_options)] if others or entry.eval_options else []
        return [entry.missing(variant[0]), *empty, code(entry.command(variant), *judging)]


def variant_name(variant: Variant) -> str:
    """Return a variant, as options of the command line.

    Examples
    --------
    >>> variant_name(("small", (("max_steps", 3),)))
    'small --max-steps 3'
    """
    preset, rest = variant
    words = [*([preset] if preset else []), *option_words(dict(rest))]
    return " ".join(words) or "defaults"


def _seeds(best: RunRecord, records: Sequence[RunRecord]) -> str:
    """Return all seeds, and which of them is the best on the validation set."""
    seeds = sorted(record.setup.seed for record in records)
    listed = ", ".join(map(str, seeds))
    return listed if len(seeds) == 1 else f"{best.setup.seed} of {listed}"


def _needs_gpu(preset: str | None) -> bool:
    return preset == "paper"
