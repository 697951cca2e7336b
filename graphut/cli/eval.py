"""`graphut eval`."""

from __future__ import annotations

from collections.abc import Sequence

from graphut.cli.device import add_device, pick_device
from graphut.cli.parser import Parser
from graphut.tasks import read_pairs
from graphut.training import Run, evaluate


def main(argv: Sequence[str]) -> int:
    """Print how good the best model of a run is."""
    arguments = _parser().parse_args(argv)
    device = pick_device(arguments.device)
    run = Run.open(arguments.folder)
    if arguments.data is None:
        pairs = run.task().test
    else:
        pairs = read_pairs(arguments.data, run.source_vocabulary, run.target_vocabulary)
    longest = max(len(target) for _, target in pairs)
    result = evaluate(run.model().to(device), pairs, max_length=longest)
    print(f"{len(pairs)} sequences: {result}")
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="graphut eval", description="Decode greedily, and compare with what is right."
    )
    parser.add_argument("folder", help="the folder of a run")
    parser.add_argument(
        "--data", metavar="FILE", help="file of pairs (default: the test set of the run)"
    )
    add_device(parser)
    return parser
