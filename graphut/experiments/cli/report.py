"""`graphut report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graphut._files import write_atomically
from graphut.experiments.cli.device import add_device, pick_device
from graphut.experiments.cli.options import Parser
from graphut.experiments.records.report import run_report
from graphut.experiments.training import Run


def main(argv: Sequence[str]) -> int:
    """Write the report of a run."""
    arguments = _parser().parse_args(argv)
    out = Path(arguments.out)
    if out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a report is a page of HTML: let {out} end with .html")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"cannot write {out}: make its folder, or name another")
    report = run_report(Run.open(arguments.folder), pick_device(arguments.device))
    write_atomically(out, report.encode())
    print(out)
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="graphut report",
        description="Write a report of a run into one file that any browser opens: what was "
        "trained and how, results by length and difficulty, examples with their steps and their "
        "attention, where the depth goes, the work saved, and how to make the run again. The run "
        "must have been evaluated, as it is at its end or by graphut eval.",
    )
    option = parser.add_argument
    option("folder", metavar="FOLDER", help="the folder of a run")
    option("--out", metavar="FILE", required=True, help="the report: .html")
    add_device(parser)
    return parser
