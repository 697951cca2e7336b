"""The command `graphut results`."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from graphut._files import write_atomically
from graphut.experiments.cli.options import Parser
from graphut.experiments.results.line_chart import Chart
from graphut.experiments.results.page import (
    make_charts,
    make_tables,
    rebuild,
    stale_tables,
    unshown,
)
from graphut.experiments.results.records import add_bench, add_run, read_records

_FOLDER, _PAGE = "examples/results", "examples/RESULTS.md"


def main(argv: Sequence[str]) -> int:
    """Add records of runs and benchmarks, or make the page of all records anew."""
    if argv[:1] == ["add"]:
        return _add(_adding_parser().parse_args(argv[1:]))
    arguments = _parser().parse_args(argv)
    records = read_records(arguments.folder)
    pictures = os.path.relpath(arguments.folder, Path(arguments.page).parent)
    tables = make_tables(records, Path(pictures).as_posix())
    for record in unshown(records):
        print(f"no table has a place for {record.name}: {'; '.join(record.commands)}")
    return (_check if arguments.check else _rebuild)(arguments, tables, make_charts(records))


def _rebuild(arguments: Namespace, tables: Mapping[str, str], charts: Mapping[str, Chart]) -> int:
    path = Path(arguments.page)
    page = rebuild(path.read_text(encoding="utf-8"), tables)
    for name, chart in charts.items():
        chart.save(Path(arguments.folder, f"{name}.png"))
    write_atomically(path, page.encode())
    print(f"{path} has {len(tables)} tables; {len(charts)} charts are in {arguments.folder}")
    return 0


def _check(arguments: Namespace, tables: Mapping[str, str], charts: Mapping[str, Chart]) -> int:
    stale = [
        f"{arguments.page}: the table {name!r}"
        for name in stale_tables(Path(arguments.page).read_text(encoding="utf-8"), tables)
    ]
    pictures = {Path(arguments.folder, f"{name}.png"): chart for name, chart in charts.items()}
    stale += [f"{path}" for path, chart in pictures.items() if not chart.is_drawn(path)]
    for what in stale:
        print(f"{what} does not match the records: run graphut results")
    return 1 if stale else 0


def _add(arguments: Namespace) -> int:
    if arguments.name is not None and len(arguments.measured) > 1:
        raise ValueError("--name is for one run")
    for measured in arguments.measured:
        if Path(measured).is_file():
            path = add_bench(measured, arguments.to, replace=arguments.replace)
        else:
            path = add_run(measured, arguments.to, arguments.name, replace=arguments.replace)
        print(path)
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="graphut results",
        description="Make the tables of the results page, and its charts, anew from the records. "
        "graphut results add --help says how a record is made.",
    )
    option = parser.add_argument
    option("--folder", default=_FOLDER, help=f"where the records are (default: {_FOLDER})")
    option("--page", default=_PAGE, help=f"the page (default: {_PAGE})")
    help = "change nothing; exit with 1 if anything would change"
    option("--check", action="store_true", help=help)
    return parser


def _adding_parser() -> Parser:
    parser = Parser(
        prog="graphut results add",
        description="Keep what runs and benchmarks have found, in a small file for each.",
    )
    option = parser.add_argument
    help = "the folder of a run, or what graphut bench --out has written"
    option("measured", nargs="+", metavar="RUN", help=help)
    help = f"of the records (default: {_FOLDER})"
    option("--to", default=_FOLDER, metavar="FOLDER", help=help)
    option("--name", help="of the record (default: made of what was asked for)")
    help = "take the place of records that are there already"
    option("--replace", action="store_true", help=help)
    return parser
