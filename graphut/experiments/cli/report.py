"""`graphut report`: write the report of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graphut._files import write_atomically
from graphut.experiments.cli.run_options import pick_device, run_parser
from graphut.experiments.records.report import run_report
from graphut.experiments.training import Run


def main(argv: Sequence[str]) -> int:
    """Write the report of a run."""
    parser = run_parser(
        "report",
        "Write a report of a run into one HTML file: options, results by length and difficulty, "
        "examples with their steps and attention, steps by position, operations, and the commands "
        "that repeat the run. The run must have been evaluated, by graphut train at its end or by "
        "graphut eval.",
    )
    parser.add_argument("--out", metavar="FILE", required=True, help="the report: .html")
    arguments = parser.parse_args(argv)
    out = Path(arguments.out)
    if out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a report is an HTML file: the name {out} must end with .html")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"cannot write {out}: make its folder, or name another")
    report = run_report(Run.open(arguments.folder), pick_device(arguments.device))
    write_atomically(out, report.encode())
    print(out)
    return 0
