"""Results: a small record of each run and benchmark, and a page whose tables are made of them."""

from graphut.experiments.results.page import make_charts, make_tables, rebuild
from graphut.experiments.results.records import Records, add_bench, add_run, read_records
from graphut.experiments.results.run_record import RunRecord

__all__ = [
    "Records",
    "RunRecord",
    "add_bench",
    "add_run",
    "make_charts",
    "make_tables",
    "read_records",
    "rebuild",
]
