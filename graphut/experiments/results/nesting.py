"""The table of ListOps by nesting: what is right, and how many steps it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.results.run_table import variant_name
from graphut.experiments.results.task_tables import TASK_TABLES
from graphut.experiments.tables import markdown_table, share, two_decimals

_STEPS = ("encoder_steps", "decoder_steps")


def nesting_table(runs: Sequence[RunRecord]) -> str:
    """Return the table of right answers and steps by how deep lists are nested: means of seeds.

    Runs that were judged by an older version do not say it, and have no row.
    """
    table = TASK_TABLES["listops"]
    names = [column.test_set for column in table.columns[:-1]]  # the last one is that of steps
    rows_of: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for variant, records in table.entries[0].variants(runs).items():
        for name in names:
            of_seeds = [
                record.evaluations.get(name, {}).get("by_nesting", ()) for record in records
            ]
            if rows := [row for own in of_seeds for row in own]:
                rows_of[variant_name(variant), name] = rows
    ranges = sorted({(row["from"], row["to"]) for rows in rows_of.values() for row in rows})
    body = [[*key, *(_cell(rows, ends) for ends in ranges)] for key, rows in rows_of.items()]
    titles = [str(low) if low == high else f"{low} to {high}" for low, high in ranges]
    return markdown_table(["model", "test set", *titles], body)


def _cell(rows: Sequence[Mapping[str, Any]], ends: tuple[int, int]) -> str:
    """Return the share of right answers, and steps in the encoder and in the decoder."""
    own = [row for row in rows if (row["from"], row["to"]) == ends]
    if not own:
        return ""
    steps = (two_decimals(fmean(row[name] for row in own)) for name in _STEPS)
    return f"{share(fmean(row['sequence_accuracy'] for row in own))} at {', '.join(steps)}"
