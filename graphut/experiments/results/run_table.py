"""A table of runs: what is to be measured, and what was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean
from typing import Any

from graphut.experiments import tables
from graphut.experiments.machine import machine_name
from graphut.experiments.results.published import PUBLISHED
from graphut.experiments.results.run_record import RunRecord, best_run, did_not_train, eval_command
from graphut.experiments.results.run_setup import DATA, Setup, option_words
from graphut.experiments.tasks import TASK_PRESETS
from graphut.experiments.tasks.presets import BASELINES, SMALL, UNTIED
from graphut.experiments.wording import counted

Values = Callable[[Mapping[str, Any]], Sequence[float]]
Variant = tuple[str | None, tuple[tuple[str, Any], ...]]
"""A preset, and options that differ from it and do not belong to an entry."""


@dataclass(frozen=True)
class Column:
    """A column with numbers of an evaluation."""

    title: str
    test_set: str
    values: Values  # the numbers that stand beside each other in a cell
    form: Callable[[float], str] = tables.share

    def cell(self, seeds: Sequence[RunRecord]) -> str:
        """Return mean and deviation of the seeds; the values themselves, if there is one seed."""
        judged = [found for r in seeds if (found := r.evaluations.get(self.test_set)) is not None]
        numbers = [values for values in map(self.values, judged) if values]
        columns = zip(*numbers, strict=True)
        empty = "" if judged else tables.NOT_MEASURED
        return " / ".join(tables.mean_and_deviation(x, self.form) for x in columns) or empty


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
    also: Mapping[str, Any] = field(default_factory=dict)  # of one more run of `small`
    also_name: str = ""  # what that run is called in short

    @property
    def presets(self) -> list[str | None]:
        """The presets of the task that are to be measured; `untied` is one more, not asked for."""
        found: list[str | None] = [*TASK_PRESETS.get(self.task, {})] or [None]
        left_out = (UNTIED,) if self.baselines else (UNTIED, *BASELINES)
        return [preset for preset in found if preset not in left_out]

    def command(self, variant: Variant) -> str:
        """Return the command line that trains a variant."""
        preset, options = variant
        paths = {**self.paths, **(self.gpu_paths if _needs_gpu(preset) else {})}
        return Setup(self.task, preset, {**paths, **self.options, **dict(options)}).command()

    def variant(self, preset: str | None) -> Variant:
        """Return the variant in which a preset is measured."""
        return preset, () if _needs_gpu(preset) else tuple(self.cpu_options.items())

    @property
    def asked(self) -> list[Variant]:
        """The variants that are to be measured."""
        also: list[Variant] = [(SMALL, tuple(self.also.items()))] if self.also else []
        return [*map(self.variant, self.presets), *also]

    def short_name(self, variant: Variant) -> str:
        """Return a short name of a variant; a preset as it is asked for has none."""
        preset, options = variant
        if self.also and variant == (SMALL, tuple(self.also.items())):
            return self.also_name
        as_asked = (preset, _without_precision(options)) == self.variant(preset)
        return "" if as_asked else variant_name(variant)

    def missing(self, preset: str | None) -> str:
        """Return the text that stands in place of a measurement: there is none, and why."""
        reason = self.reason
        if not reason and _needs_gpu(preset):
            reason = "many hours without a GPU"
            reason += ", not all files are here" if self.gpu_paths else ""
        return f"not measured yet ({reason})" if reason else "not measured yet"

    def variants(self, runs: Sequence[RunRecord]) -> dict[Variant, list[RunRecord]]:
        """Return the runs of this entry, by variant: the variants to be measured, then others.

        Raises ValueError if two records are of the same run.
        """
        found: dict[Variant, list[RunRecord]] = {variant: [] for variant in self.asked}
        asked = self._key_options({**self.options, **self.paths})
        for record in runs:
            setup = record.setup
            same = setup.task == self.task and self._key_options(setup.options) == asked
            if same and all(o == self.eval_options for o in record.eval_options.values()):
                rest = {k: v for k, v in setup.options.items() if not self._is_key(k, v)}
                if rest.get("precision") == "float32" and record.on_cpu:
                    del rest["precision"]  # a CPU that measures no gain takes it by itself
                found.setdefault((setup.preset, tuple(rest.items())), []).append(record)
        for records in found.values():
            _check_seeds(records)
        return _in_any_precision(found)

    def as_asked(self, preset: str, runs: Sequence[RunRecord]) -> list[RunRecord]:
        """Return the runs of a preset as it is asked for, in any precision."""
        found = self.variants(runs).items()
        asked = (own for v, own in found if v[0] == preset and not self.short_name(v))
        return [*chain.from_iterable(asked)]

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
        head += ["weights", "updates", "minutes", "on", "seeds", "command"]
        rows = [row for entry in self.entries for row in self._rows(entry, runs)]
        return tables.markdown_table(head, rows)

    def _rows(self, entry: Entry, runs: Sequence[RunRecord]) -> list[list[str]]:
        label, found = entry.label or entry.task, entry.variants(runs)
        others = [*chain.from_iterable(found.values())]
        rows = [
            [label, variant_name(variant), *self._cells(entry, variant, records, others)]
            for variant, records in found.items()
        ]
        for row in PUBLISHED.get(label, ()):
            cells = [row.cells.get(column.title, "") for column in self.columns]
            rows.append([label, row.who, *cells, *[""] * 5, row.source])
        return rows

    def _cells(
        self,
        entry: Entry,
        variant: Variant,
        records: Sequence[RunRecord],
        others: Sequence[RunRecord],
    ) -> list[str]:
        if not records:
            return self._missing(entry, variant)
        first = min(records, key=lambda record: record.setup.seed)
        return [
            *(cell_of(column, records, others) for column in self.columns),
            f"{first.weights:,}",
            f"{fmean(record.updates for record in records):,.0f}",
            tables.three_digits(fmean(record.seconds for record in records) / 60),
            machine_name(first.machines),
            seeds_of(records),
            tables.code(*first.commands),
        ]

    def _missing(self, entry: Entry, variant: Variant) -> list[str]:
        empty = [""] * (len(self.columns) - 1 + 5)
        # Training ends with the set `test`.
        others = any(column.test_set != "test" for column in self.columns)
        judging = [eval_command(entry.eval_options)] if others or entry.eval_options else []
        return [entry.missing(variant[0]), *empty, tables.code(entry.command(variant), *judging)]


def cell_of(column: Column, records: Sequence[RunRecord], others: Sequence[RunRecord]) -> str:
    """Return a column's cell of a variant's seeds, unless none of them has trained as `others`."""
    failed = all(did_not_train(record, others) for record in records)
    return "did not train" if failed else column.cell(records)


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


def in_brackets(name: str, seeds: int) -> str:
    """Return the name of a variant, if it has one, and how many seeds there are; one is one run."""
    count = "one run" if seeds == 1 else counted(seeds, "seed")
    return f"({name}, {count})" if name else f"({count})"


def seeds_of(records: Sequence[RunRecord]) -> str:
    """Return the seeds of some runs; of one run, also that it is one."""
    seeds = ", ".join(map(str, sorted(record.setup.seed for record in records)))
    return seeds if len(records) > 1 else f"one run: {seeds}"


def _check_seeds(records: Sequence[RunRecord]) -> None:
    """Raise ValueError if two runs of a variant have one seed: they would stand for two seeds."""
    names: dict[int, str] = {}
    for record in records:
        other = names.setdefault(record.setup.seed, record.name)
        if other != record.name:
            raise ValueError(
                f"{other} and {record.name} are the same run, from the same seed: delete one of "
                "these records"
            )


def _in_any_precision(found: dict[Variant, list[RunRecord]]) -> dict[Variant, list[RunRecord]]:
    """Return the variants; in place of one without a run, the same in another precision."""
    ordered: dict[Variant, list[RunRecord]] = {}
    for variant, records in found.items():
        same = [v for v in found if v != variant and (v[0], _without_precision(v[1])) == variant]
        chosen = same if same and not records else [variant]
        ordered.update({v: found[v] for v in chosen})
    return ordered


def _without_precision(options: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
    return tuple(option for option in options if option[0] != "precision")


def _needs_gpu(preset: str | None) -> bool:
    return preset == "paper"
