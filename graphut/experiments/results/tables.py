"""Everything on the page that is made of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graphut.experiments.results.babi import ENTRIES as BABI_ENTRIES
from graphut.experiments.results.babi import FAMILY as BABI
from graphut.experiments.results.babi import babi_table
from graphut.experiments.results.benchmarks import (
    attention_table,
    frontier_table,
    model_table,
    scaling_table,
)
from graphut.experiments.results.chart import Chart
from graphut.experiments.results.depth import depth_chart, depth_table
from graphut.experiments.results.difficulty import difficulty_chart, difficulty_table
from graphut.experiments.results.families import FAMILIES
from graphut.experiments.results.lengths import lengths_chart
from graphut.experiments.results.records import Records
from graphut.experiments.results.run_record import RunRecord

CHARTS: Mapping[str, Callable[[Records], Chart]] = {
    "lengths": lambda records: lengths_chart(records.runs),
    "depth": lambda records: depth_chart(records.runs),
    "difficulty": lambda records: difficulty_chart(records.runs),
}
"""By the name of the picture's file, without `.png`."""

_TABLES: Mapping[str, Callable[[Records], str]] = {
    "babi-1k": lambda records: babi_table(records.runs, "1k", joint=False),
    "babi-1k-joint": lambda records: babi_table(records.runs, "1k", joint=True),
    "babi-10k": lambda records: babi_table(records.runs, "10k", joint=False),
    "babi-10k-joint": lambda records: babi_table(records.runs, "10k", joint=True),
    "depth": lambda records: depth_table(records.runs),
    "difficulty": lambda records: difficulty_table(records.runs),
    "attention": lambda records: attention_table(records.benches),
    "frontier": lambda records: frontier_table(records.benches),
    "model": lambda records: model_table(records.benches),
    "scaling": lambda records: scaling_table(records.benches),
}


def unshown(records: Records) -> list[RunRecord]:
    """Runs that no table has a place for, such as those of data of one's own."""
    families = [(family, family.entries) for family in FAMILIES.values()] + [(BABI, BABI_ENTRIES)]
    shown = {
        record.name
        for family, entries in families
        for entry in entries
        for found in family.variants(entry, records.runs).values()
        for record in found
    }
    return [record for record in records.runs if record.name not in shown]


def make_charts(records: Records) -> dict[str, Chart]:
    """The charts that there is data for, by name."""
    charts = {name: make(records) for name, make in CHARTS.items()}
    return {name: chart for name, chart in charts.items() if chart.panels}


def make_tables(records: Records, pictures: str) -> dict[str, str]:
    """All tables by name, and under `NAME-chart` the picture of each chart.

    Parameters
    ----------
    records : Records
        What was measured.
    pictures : str
        Where the pictures are, as seen from the page.
    """
    tables = {name: family.table(records.runs) for name, family in FAMILIES.items()}
    tables |= {name: make(records) for name, make in _TABLES.items()}
    drawn = make_charts(records)
    for name in CHARTS:
        picture = f"![{drawn[name].title}]({pictures}/{name}.png)" if name in drawn else ""
        tables[f"{name}-chart"] = picture or "There is nothing to draw yet."
    return tables
