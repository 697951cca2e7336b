"""What was measured: a small record of each run, and a page whose tables are made of them."""

from graphut.experiments.results.page import rebuild, stale_tables
from graphut.experiments.results.records import Records, add_bench, add_run, read_records
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.results.setup import Setup
from graphut.experiments.results.tables import make_charts, make_tables, unshown

__all__ = [
    "Records",
    "RunRecord",
    "Setup",
    "add_bench",
    "add_run",
    "make_charts",
    "make_tables",
    "read_records",
    "rebuild",
    "stale_tables",
    "unshown",
]
