"""Accuracy against compute: every node as deep as the others, or each as deep as it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphut.experiments.results.babi import CHOOSE_DEPTH, FAMILY, babi_entry
from graphut.experiments.results.chart import Chart, Panel, Series
from graphut.experiments.results.families import FAMILIES
from graphut.experiments.results.family import Entry, Family, Variant, variant_name
from graphut.experiments.results.markdown import code, large, number, percent, share, table
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.tasks import TASK_PRESETS


@dataclass(frozen=True)
class Contest:
    """What the depths are compared on.

    Parameters
    ----------
    title : str
        What it is called.
    family : Family
        What tells its runs apart.
    entry : Entry
        Its runs.
    measure : str
        A number of an evaluation on `test`.
    meaning : str
        What that is.
    """

    title: str
    family: Family
    entry: Entry
    measure: str
    meaning: str


CONTESTS = (
    Contest("copy", FAMILIES["letters"], Entry("copy"), "sequence_accuracy", "right sequences"),
    Contest("sort", FAMILIES["letters"], Entry("sort"), "sequence_accuracy", "right sequences"),
    Contest("bAbI, 1k, qa15", FAMILY, babi_entry("15", "1k"), "accuracy", "right answers"),
    Contest("bAbI, 10k, qa14", FAMILY, babi_entry("14", "10k"), "accuracy", "right answers"),
    Contest(
        "characters",
        FAMILIES["char-lm"],
        FAMILIES["char-lm"].entries[0],
        "bits",
        "bits a character",
    ),
)


def depth_table(runs: Sequence[RunRecord]) -> str:
    """Of each contest: all fixed depths, and adaptive depth."""
    head = ["task", "depth", "measure", "value", "FLOPs", "share of all", "seed", "command"]
    return table(head, [row for contest in CONTESTS for row in _rows(contest, runs)])


def depth_chart(runs: Sequence[RunRecord]) -> Chart:
    """A panel for each contest."""
    return Chart(
        "Accuracy against compute: the same depth for all, and a depth for each",
        [panel for contest in CONTESTS if (panel := _panel(contest, runs))],
    )


def _rows(contest: Contest, runs: Sequence[RunRecord]) -> list[list[str]]:
    return [
        [contest.title, _depth(variant), contest.meaning, *_cells(contest, variant, records)]
        for variant, records in _variants(contest, runs).items()
    ]


def _variants(contest: Contest, runs: Sequence[RunRecord]) -> dict[Variant, list[RunRecord]]:
    """The fixed depths, from 1 on, and whatever else was run that shares its weights."""
    found = contest.family.variants(contest.entry, runs)
    fixed: dict[Variant, list[RunRecord]] = {
        variant: found.pop(variant, []) for variant in _fixed(contest.entry)
    }
    others = {
        variant: records
        for variant, records in found.items()
        if variant == contest.entry.variant("small")
        or any(record.model["share_weights"] for record in records)
    }
    return fixed | others


def _fixed(entry: Entry) -> list[Variant]:
    """Depths 1, 2, ... up to that of the preset `fixed`, which needs no option for it."""
    name, brief = entry.variant("fixed")
    deepest = TASK_PRESETS.get(entry.task, {}).get("fixed", {}).get("max_steps", 8)
    shallower: list[Variant] = [(name, (*brief, ("max_steps", n))) for n in range(1, deepest)]
    return [*shallower, (name, brief)]


def _depth(variant: Variant) -> str:
    return variant_name(variant).replace("small", "adaptive", 1)


def _cells(contest: Contest, variant: Variant, records: Sequence[RunRecord]) -> list[str]:
    if not records:
        setup = contest.entry.setup(variant[0], dict(variant[1]))
        return ["not measured yet", "", "", "", code(setup.command())]
    best = max(records, key=lambda record: record.rank)
    found = best.evaluations["test"]
    return [
        _form(contest)(found[contest.measure]),
        large(found["flops_per_example"]),
        f"{percent(found['flops_share'])}%",
        str(best.setup.seed),
        code(*best.commands),
    ]


def _form(contest: Contest) -> Callable[[float], str]:
    return number if contest.measure == "bits" else share


def _panel(contest: Contest, runs: Sequence[RunRecord]) -> Panel | None:
    points: dict[str, list[tuple[float, float]]] = {}
    for variant, records in _variants(contest, runs).items():
        for record in records:
            found = record.evaluations["test"]
            point = (found["flops_per_example"] / 1e6, found[contest.measure])
            points.setdefault(_line(variant), []).append(point)
    if not points:
        return None
    # Seeds of an adaptive model are points: it chose their depth.
    series = [Series(label, sorted(p), label.startswith("fixed")) for label, p in points.items()]
    return Panel(contest.title, "MFLOPs", contest.meaning, series)


def _line(variant: Variant) -> str:
    """What points of a series have in common: all but what the depth is chosen by."""
    preset, options = variant
    rest = tuple((name, value) for name, value in options if name not in CHOOSE_DEPTH)
    return _depth((preset, rest))
