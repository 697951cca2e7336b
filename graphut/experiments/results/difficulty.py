"""Steps and right answers by difficulty: on easy and hard inputs, by length, by nesting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import Any

from graphut.experiments.results.babi import babi_entry, joint_entry
from graphut.experiments.results.line_chart import Chart, Panel, Series
from graphut.experiments.results.published import BABI_STEPS
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.results.run_table import Entry, variant_name
from graphut.experiments.results.task_tables import TASK_TABLES
from graphut.experiments.tables import code, markdown_table, share, two_decimals
from graphut.experiments.tasks.presets import BASELINES, SMALL

Row = Mapping[str, Any]
_LONG = "up-to-400"  # the test set of algorithmic tasks that has all lengths
_DEEPEST = "official-d20s"  # the test set of ListOps with the deepest lists
_MEASURES = {
    "token_accuracy": "right symbols",
    "sequence_accuracy": "right sequences",
    "encoder_steps": "steps in the encoder",
    "decoder_steps": "steps in the decoder",
}


@dataclass(frozen=True)
class DifficultyScale:
    """A measure of difficulty, and the entries whose rows are shown by it, one after another."""

    title: str
    unit: str  # what difficulty is counted in
    entries: Sequence[Entry]
    test_set: str
    rows: str  # the key of the evaluation's rows, and of `_DIFFICULTY`
    steps: str  # the key of the steps in a row
    published: Mapping[int, float] | None = None


def _middle(row: Row) -> float:
    return (row["from"] + row["to"]) / 2


_DIFFICULTY: Mapping[str, Callable[[Row], float]] = {
    "by_source_length": _middle,
    "by_surprisal": _middle,
    "by_supporting": lambda row: float(row["supporting"]),
    "by_group": lambda row: float(row["group"].split()[0]),
}
SCALES = (
    *(
        DifficultyScale(
            f"{task}, decoder", "symbols",
            (Entry(f"algorithmic-{task}"),), _LONG, "by_source_length", "decoder_steps",
        )
        for task in ("copy", "reverse", "addition")
    ),
    DifficultyScale(
        "bAbI, 1k, qa1 to qa3", "supporting facts",
        tuple(babi_entry(str(n), "1k") for n in (1, 2, 3)),
        "test", "by_supporting", "steps", BABI_STEPS,
    ),
    *(
        DifficultyScale(
            f"bAbI, {size}, joint{where}", "supporting facts", (joint_entry(size),),
            "test", "by_supporting", steps, published,
        )
        for size in ("1k", "10k")
        for where, steps, published in (
            ("", "steps", BABI_STEPS), (", the question", "question_steps", None),
        )
    ),
    DifficultyScale(
        "agreement, before the verb", "attractors",
        (TASK_TABLES["agreement"].entries[1],), "test", "by_group", "verb_steps",
    ),
    DifficultyScale(
        "characters", "nats of surprisal",
        (TASK_TABLES["char-lm"].entries[0],), "test", "by_surprisal", "steps",
    ),
)  # fmt: skip


def difficulty_table(runs: Sequence[RunRecord]) -> str:
    """Return the table of difficulties, from the easiest on, and of the steps at each."""
    head = ["task", "difficulty", "from easy to hard", "mean steps", "paper", "command"]
    return markdown_table(head, [_cells(scale, _adaptive(scale, runs)) for scale in SCALES])


def difficulty_chart(runs: Sequence[RunRecord]) -> Chart:
    """Return a chart with a panel for each scale."""
    return Chart(
        "Depth used against difficulty",
        [
            Panel(scale.title, scale.unit, "mean steps", list(_series(scale, records)))
            for scale in SCALES
            if (records := _adaptive(scale, runs))
        ],
    )


def _adaptive(scale: DifficultyScale, runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the best run of each entry with the preset `small`, which halts; all or none."""
    best = [entry.best(entry.variant(SMALL), scale.test_set, runs) for entry in scale.entries]
    found = [record for record in best if record is not None]
    return found if len(found) == len(best) else []


def _points(scale: DifficultyScale, records: Sequence[RunRecord]) -> list[tuple[float, float]]:
    rows = [row for record in records for row in record.evaluations[scale.test_set][scale.rows]]
    return [(_DIFFICULTY[scale.rows](row), row[scale.steps]) for row in rows]


def _cells(scale: DifficultyScale, records: Sequence[RunRecord]) -> list[str]:
    paper = _listed((scale.published or {}).values())
    if not records:
        commands = [entry.command(entry.variant(SMALL)) for entry in scale.entries]
        return [scale.title, scale.unit, "not measured yet", "", paper, code(*commands)]
    difficulties, steps = zip(*_points(scale, records), strict=True)
    return [
        scale.title, scale.unit, _listed(difficulties, "{:.3g}".format), _listed(steps), paper,
        code(*(command for record in records for command in record.commands)),
    ]  # fmt: skip


def _series(scale: DifficultyScale, records: Sequence[RunRecord]) -> Iterable[Series]:
    yield Series("measured", _points(scale, records))
    if scale.published:
        yield Series("paper", [(float(x), y) for x, y in scale.published.items()])


def _listed(values: Iterable[float], form: Callable[[float], str] = two_decimals) -> str:
    return ", ".join(map(form, values))


def lengths_chart(runs: Sequence[RunRecord]) -> Chart:
    """Return a chart with four panels for each task, two of accuracy and two of steps.

    A point is the mean of the seeds.
    """
    by_task = {
        entry.task: {
            preset: judged
            for preset in (SMALL, *BASELINES)
            if (judged := [r for r in entry.as_asked(preset, runs) if _LONG in r.evaluations])
        }
        for entry in TASK_TABLES["algorithmic"].entries
    }
    return Chart(
        "Trained on lengths up to 40",
        [
            Panel(task.removeprefix("algorithmic-"), "symbols of the source", meaning, series)
            for measure, meaning in _MEASURES.items()
            for task, found in by_task.items()
            if (series := [Series(name, _by_length(own, measure)) for name, own in found.items()])
        ],
    )


def _by_length(records: Sequence[RunRecord], measure: str) -> list[tuple[float, float]]:
    """Return a measure by the length of the source: means of the seeds, which have one test set."""
    found: dict[float, list[float]] = {}
    for row in chain.from_iterable(r.evaluations[_LONG]["by_source_length"] for r in records):
        found.setdefault(_middle(row), []).append(row[measure])
    return [(length, fmean(values)) for length, values in found.items()]


def nesting_table(runs: Sequence[RunRecord]) -> str:
    """Return the table of right answers by how deep lists are nested, in the deepest test set."""
    return _listops_table(runs, "by_nesting", _nesting, [_DEEPEST], with_steps=False)


def operator_table(runs: Sequence[RunRecord]) -> str:
    """Return the table of right answers and steps by the operator of the outermost list."""
    table = TASK_TABLES["listops"]
    names = [column.test_set for column in table.columns[:-1]]  # the last one is that of steps
    return _listops_table(runs, "by_operator", lambda row: (row["operator"],), names)


def _nesting(row: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the first and the last nesting of a row, once if they are the same."""
    return tuple(sorted({max(1, row["from"]), row["to"]}))  # a digit alone counts as a list


def _listops_table(
    runs: Sequence[RunRecord],
    detail: str,
    column_of: Callable[[Mapping[str, Any]], tuple[Any, ...]],
    names: Sequence[str],
    with_steps: bool = True,
) -> str:
    """Return the table of a detail of ListOps; runs judged by an older version have no row."""
    rows_of: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for variant, records in TASK_TABLES["listops"].entries[0].variants(runs).items():
        for name in names:
            of_seeds = [record.evaluations.get(name, {}).get(detail, ()) for record in records]
            if rows := [row for own in of_seeds for row in own]:
                rows_of[variant_name(variant), name] = rows
    columns = sorted({column_of(row) for rows in rows_of.values() for row in rows})
    body = [
        [
            *key,
            *(_in_column([r for r in rows if column_of(r) == own], with_steps) for own in columns),
        ]
        for key, rows in rows_of.items()
    ]
    titles = [" to ".join(map(str, ends)) for ends in columns]
    return markdown_table(["model", "test set", *titles], body)


def _in_column(own: Sequence[Mapping[str, Any]], with_steps: bool) -> str:
    """Return the share of right answers, and maybe steps in the encoder and in the decoder."""
    if not own:
        return ""
    right, *steps = (
        fmean(row[name] for row in own)
        for name in ("sequence_accuracy", "encoder_steps", "decoder_steps")
    )
    return f"{share(right)} at {_listed(steps)}" if with_steps else share(right)
