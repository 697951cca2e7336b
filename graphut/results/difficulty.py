"""How deep a model goes, by how hard it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphut.results.babi import FAMILY, joint_entry
from graphut.results.chart import Chart, Panel, Series
from graphut.results.families import FAMILIES
from graphut.results.family import Entry, Family
from graphut.results.markdown import code, number, table
from graphut.results.paper import BABI_STEPS
from graphut.results.run_record import RunRecord

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Scale:
    """What is taken for difficulty, and where.

    Parameters
    ----------
    title, unit : str
        What it is.
    family, entry : Family, Entry
        The runs, of which the adaptive model is shown.
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
    entry: Entry
    test_set: str
    rows: str
    place: Callable[[Row], float]
    steps: str
    published: Mapping[int, float] | None = None


def _length(row: Row) -> float:
    return float(row["from"] + row["to"]) / 2


def _attractors(row: Row) -> float:
    return float(row["group"].split()[0])


SCALES = (
    *(
        Scale(
            f"{task}, decoder", "symbols", FAMILIES["algorithmic"], Entry(f"algorithmic-{task}"),
            "up-to-400", "by_source_length", _length, "decoder_steps",
        )
        for task in ("copy", "reverse", "addition")
    ),
    *(
        Scale(
            f"bAbI, {size}, joint", "supporting facts", FAMILY, joint_entry(size),
            "test", "by_supporting", lambda row: float(row["supporting"]), "steps", BABI_STEPS,
        )
        for size in ("1k", "10k")
    ),
    Scale(
        "agreement, before the verb", "attractors", FAMILIES["agreement"],
        FAMILIES["agreement"].entries[1], "test", "by_group", _attractors, "verb_steps",
    ),
    Scale(
        "characters", "nats of surprisal", FAMILIES["char-lm"], FAMILIES["char-lm"].entries[0],
        "test", "by_surprisal", _length, "steps",
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
            Panel(scale.title, scale.unit, "mean steps", list(_series(scale, record)))
            for scale in SCALES
            if (record := _adaptive(scale, runs))
        ],
    )


def _adaptive(scale: Scale, runs: Sequence[RunRecord]) -> RunRecord | None:
    """The best run of the preset `small` as it is, which halts."""
    found = scale.family.variants(scale.entry, runs).get(("small", ()), [])
    usable = [record for record in found if scale.test_set in record.evaluations]
    return max(usable, key=lambda record: record.rank, default=None)


def _points(scale: Scale, record: RunRecord) -> list[tuple[float, float]]:
    rows = record.evaluations[scale.test_set][scale.rows]
    return [(scale.place(row), row[scale.steps]) for row in rows]


def _cells(scale: Scale, record: RunRecord | None) -> list[str]:
    paper = _listed((scale.published or {}).values())
    if record is None:
        command = code(scale.entry.setup("small", {}).command())
        return [scale.title, scale.unit, "not measured yet", "", paper, command]
    places, steps = zip(*_points(scale, record), strict=True)
    return [
        scale.title, scale.unit, _listed(places, "{:.3g}"), _listed(steps), paper,
        code(*record.commands),
    ]  # fmt: skip


def _series(scale: Scale, record: RunRecord) -> Iterable[Series]:
    yield Series("measured", _points(scale, record))
    if scale.published:
        yield Series("paper", [(float(x), y) for x, y in scale.published.items()])


def _listed(values: Iterable[float], form: str = "") -> str:
    return ", ".join(form.format(value) if form else number(value) for value in values)
