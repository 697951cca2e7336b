"""The results page: prose by hand, in which tables made of records stand between marks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain

from graphut.experiments.results.babi import ENTRIES, babi_table, babi_trials
from graphut.experiments.results.benchmark_tables import BENCHMARK_TABLES
from graphut.experiments.results.depth import depth_chart, depth_table
from graphut.experiments.results.difficulty import (
    difficulty_chart,
    difficulty_table,
    lengths_chart,
    nesting_table,
    operator_table,
)
from graphut.experiments.results.halting import (
    distances_table,
    families_table,
    family_runs,
    givens_table,
    halting_chart,
    other_runs,
    problems_table,
    runs_by_way,
    sweep_table,
    ways_table,
)
from graphut.experiments.results.line_chart import Chart
from graphut.experiments.results.records import Records
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.results.summary import presets_table, summary_table
from graphut.experiments.results.task_tables import TASK_TABLES
from graphut.experiments.tasks.presets import UNTIED

_TABLE = re.compile(r"(<!-- table: (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_MARK = re.compile(r"<!-- (?:table: \S+|end) -->")
_CHARTS = {
    "lengths": lengths_chart,
    "distance": halting_chart,
    "depth": depth_chart,
    "difficulty": difficulty_chart,
}
"""Charts, by the name of the picture's file without `.png`."""
_TABLES: Mapping[str, Callable[[Sequence[RunRecord]], str]] = {
    **{name: table.markdown for name, table in TASK_TABLES.items()},
    "summary": summary_table,
    "presets": presets_table,
    "babi-1k": partial(babi_table, size="1k", joint=False),
    "babi-1k-joint": partial(babi_table, size="1k", joint=True),
    "babi-10k": partial(babi_table, size="10k", joint=False),
    "babi-10k-joint": partial(babi_table, size="10k", joint=True),
    "babi-trials": babi_trials,
    "nesting": nesting_table,
    "operators": operator_table,
    "ways": ways_table,
    "distances": distances_table,
    "sweep": sweep_table,
    "families": families_table,
    "givens": givens_table,
    "problems": problems_table,
    "depth": depth_table,
    "difficulty": difficulty_table,
}


def unshown(records: Records) -> list[RunRecord]:
    """Return the runs that have no place in a table, such as those on a user's own data."""
    runs = records.runs
    entries = [*ENTRIES, *(entry for table in TASK_TABLES.values() for entry in table.entries)]
    found = [*runs_by_way(runs).values(), other_runs(runs), other_runs(runs, UNTIED)]
    found += [family_runs(runs), *(own for e in entries for own in e.variants(runs).values())]
    shown = {record.name for record in chain.from_iterable(found)}
    return [record for record in runs if record.name not in shown]


def make_charts(records: Records) -> dict[str, Chart]:
    """Return the charts for which there is data, by name."""
    charts = {name: make(records.runs) for name, make in _CHARTS.items()}
    return {name: chart for name, chart in charts.items() if chart.panels}


def make_tables(records: Records, pictures: str) -> dict[str, str]:
    """Return all tables by name, and under `NAME-chart` the picture of each chart.

    `pictures` is the folder of the pictures, as seen from the page.
    """
    tables = {name: make(records.runs) for name, make in _TABLES.items()}
    tables |= {name: table.markdown(records.benches) for name, table in BENCHMARK_TABLES.items()}
    drawn = make_charts(records)
    for name in _CHARTS:
        picture = f"![{drawn[name].title}]({pictures}/{name}.png)" if name in drawn else ""
        tables[f"{name}-chart"] = picture or "There is nothing to draw yet."
    return tables


def rebuild(page: str, tables: Mapping[str, str]) -> str:
    r"""Return the page with all tables made anew, and nothing else changed.

    In the page a table stands between the lines `<!-- table: NAME -->` and `<!-- end -->`. Raise
    `ValueError` if one of them is without the other, or a table is not there exactly once.

    Examples
    --------
    >>> rebuild("So:\n<!-- table: a -->\n<!-- end -->\n", {"a": "| 1 |"})
    'So:\n<!-- table: a -->\n\n| 1 |\n\n<!-- end -->\n'
    """
    _check_marks(page, tables)
    return _TABLE.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n\n{found[4]}", page)


def stale_tables(page: str, tables: Mapping[str, str]) -> list[str]:
    r"""Return the names of the tables that `rebuild` would change.

    Examples
    --------
    >>> stale_tables("<!-- table: a -->\n\n| 2 |\n\n<!-- end -->", {"a": "| 1 |"})
    ['a']
    """
    _check_marks(page, tables)
    found = {name: text for _, name, text, _ in _TABLE.findall(page)}
    return [name for name, text in found.items() if text != f"\n{tables[name]}\n\n"]


def _check_marks(page: str, tables: Mapping[str, str]) -> None:
    names = [found[2] for found in _TABLE.finditer(page)]
    if len(_MARK.findall(page)) != 2 * len(names):
        raise ValueError("the page has a mark without its other one: <!-- table: NAME --> and "
                         "<!-- end --> go together")  # fmt: skip
    for name in [*names, *tables]:
        count = names.count(name)
        if name not in tables:
            raise ValueError(f"the page has a table {name!r}; known are: {', '.join(tables)}")
        if count != 1:
            raise ValueError(f"the page has the table {name!r} {count} times, and not once")
