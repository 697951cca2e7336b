"""`graphut report`: write an HTML report of a run."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from graphut._files import write_atomically
from graphut.experiments.cli.device import pick_device
from graphut.experiments.records.report import run_report
from graphut.experiments.training import Run


def main(arguments: Namespace) -> int:
    """Write the options, the results and examples of a run as an HTML file."""
    out = Path(arguments.out)
    if out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a report is an HTML file: the name {out} must end with .html")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"cannot write {out}: make its folder, or name another")
    report = run_report(Run.open(arguments.folder), pick_device(arguments.device))
    write_atomically(out, report.encode())
    print(out)
    return 0
