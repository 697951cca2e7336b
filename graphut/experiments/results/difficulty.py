"""How deep a model goes, by how hard it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphut.experiments.results.babi import FAMILY, babi_entry, joint_entry
from graphut.experiments.results.chart import Chart, Panel, Series
from graphut.experiments.results.families import FAMILIES
from graphut.experiments.results.family import Entry, Family
from graphut.experiments.results.markdown import code, number, table
from graphut.experiments.results.paper import BABI_STEPS
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.results.setup import Setup

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Scale:
    """What is taken for difficulty, and where.

    Parameters
    ----------
    title, unit : str
        What it is.
    family, entries : Family, tuple of Entry
        The runs, of which the adaptive model is shown; the rows of several follow one another.
    test_set, rows : str
        Where its evaluation has the rows.
    place : callable
        How difficult a row is.
    steps : str
        The steps in a row.
    published : mapping
        What others have found.
    """

    title: str
    unit: str
    family: Family
    entries: tuple[Entry, ...]
    test_set: str
    rows: str
    place: Callable[[Row], float]
    steps: str
    published: Mapping[int, float] | None = None


def _length(row: Row) -> float:
    return float(row["from"] + row["to"]) / 2


def _supporting(row: Row) -> float:
    return float(row["supporting"])


def _attractors(row: Row) -> float:
    return float(row["group"].split()[0])


SCALES = (
    *(
        Scale(
            f"{task}, decoder", "symbols", FAMILIES["algorithmic"], (Entry(f"algorithmic-{task}"),),
            "up-to-400", "by_source_length", _length, "decoder_steps",
        )
        for task in ("copy", "reverse", "addition")
    ),
    Scale(
        "bAbI, 1k, qa1 to qa3", "supporting facts", FAMILY,
        tuple(babi_entry(str(n), "1k") for n in (1, 2, 3)),
        "test", "by_supporting", _supporting, "steps", BABI_STEPS,
    ),
    *(
        Scale(
            f"bAbI, {size}, joint{where}", "supporting facts", FAMILY, (joint_entry(size),),
            "test", "by_supporting", _supporting, steps, published,
        )
        for size in ("1k", "10k")
        for where, steps, published in (
            ("", "steps", BABI_STEPS), (", the question", "question_steps", None),
        )
    ),
    Scale(
        "agreement, before the verb", "attractors", FAMILIES["agreement"],
        (FAMILIES["agreement"].entries[1],), "test", "by_group", _attractors, "verb_steps",
    ),
    Scale(
        "characters", "nats of surprisal", FAMILIES["char-lm"],
        (FAMILIES["char-lm"].entries[0],), "test", "by_surprisal", _length, "steps",
    ),
)  # fmt: skip


def difficulty_table(runs: Sequence[RunRecord]) -> str:
    """Of each scale: from the easiest to the hardest, and the steps."""
    head = ["task", "difficulty", "from easy to hard", "mean steps", "paper", "command"]
    return table(head, [_cells(scale, _adaptive(scale, runs)) for scale in SCALES])


def difficulty_chart(runs: Sequence[RunRecord]) -> Chart:
    """A panel for each scale."""
    return Chart(
        "Depth used against difficulty",
        [
            Panel(scale.title, scale.unit, "mean steps", list(_series(scale, records)))
            for scale in SCALES
            if (records := _adaptive(scale, runs))
        ],
    )


def _adaptive(scale: Scale, runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The best run of each entry with the preset `small`, which halts; all or none."""
    best = []
    for entry in scale.entries:
        found = scale.family.variants(entry, runs).get(entry.variant("small"), [])
        usable = [record for record in found if scale.test_set in record.evaluations]
        if not usable:
            return []
        best.append(max(usable, key=lambda record: record.rank))
    return best


def _points(scale: Scale, records: Sequence[RunRecord]) -> list[tuple[float, float]]:
    rows = [row for record in records for row in record.evaluations[scale.test_set][scale.rows]]
    return [(scale.place(row), row[scale.steps]) for row in rows]


def _cells(scale: Scale, records: Sequence[RunRecord]) -> list[str]:
    paper = _listed((scale.published or {}).values())
    if not records:
        commands = [_setup(entry).command() for entry in scale.entries]
        return [scale.title, scale.unit, "not measured yet", "", paper, code(*commands)]
    places, steps = zip(*_points(scale, records), strict=True)
    return [
        scale.title, scale.unit, _listed(places, "{:.3g}"), _listed(steps), paper,
        code(*(command for record in records for command in record.commands)),
    ]  # fmt: skip


def _setup(entry: Entry) -> Setup:
    preset, options = entry.variant("small")
    return entry.setup(preset, dict(options))


def _series(scale: Scale, records: Sequence[RunRecord]) -> Iterable[Series]:
    yield Series("measured", _points(scale, records))
    if scale.published:
        yield Series("paper", [(float(x), y) for x, y in scale.published.items()])


def _listed(values: Iterable[float], form: str = "") -> str:
    return ", ".join(form.format(value) if form else number(value) for value in values)
