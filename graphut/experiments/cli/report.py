"""`graphut report`: describe a run as a page."""

from argparse import Namespace

from graphut._files import write_atomically
from graphut.experiments.cli.options import pick_device
from graphut.experiments.report import run_report


def main(arguments: Namespace) -> int:
    """Write the options, the results and examples of a run as an HTML file."""
    report = run_report(arguments.run, pick_device(arguments.device))
    write_atomically(arguments.out, report.encode())
    print(arguments.out)
    return 0
