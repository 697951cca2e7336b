"""The command `graphut topology`."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Sequence

from graphut.experiments.cli.compare import add_compare, compare
from graphut.experiments.cli.options import Parser
from graphut.experiments.wording import counted
from graphut.plotting import draw_topology
from graphut.plotting.figure import save_figure
from graphut.topology import Topology, parse, spec_signatures, statistics
from graphut.topology.statistics import Statistics


def main(argv: Sequence[str]) -> int:
    """Describe one topology, or compare several; draw the result where asked."""
    arguments = _parser(argv).parse_args(argv)
    if arguments.ACTION == "compare":
        compare(arguments)
    else:
        _show(arguments)
    return 0


def _show(arguments: Namespace) -> None:
    topology = parse(arguments.spec)
    numbers = statistics(topology, arguments.nodes)
    print(describe(topology, numbers))
    if numbers.min_in_degree == 0:
        warnings.warn(
            f"{topology} has nodes without in-edges among {counted(numbers.tokens, 'token')}: a "
            "model refuses such a sentence; add '|window:0', so that each token sees itself",
            stacklevel=2,
        )
    if arguments.out is not None:
        save_figure(draw_topology(topology, arguments.nodes), arguments.out)


def describe(topology: Topology, numbers: Statistics) -> str:
    """Return edges, degrees and distances, a line each.

    Examples
    --------
    >>> from graphut.topology import Window
    >>> print(describe(Window(2), statistics(Window(2), 12)))
    window:2 over 12 tokens
    edges       54, 37.5% of all pairs
    in-degrees  3 to 5, 4.50 on average
    diameter    6
    everyone has heard of everyone after 6 steps
    """
    extra = numbers.nodes - numbers.tokens
    others = f" and {counted(extra, 'other node')}" if extra else ""
    share = numbers.edges / numbers.nodes**2
    if numbers.unreachable is None:
        pairs = ""
        hearing = f"everyone has heard of everyone after {counted(numbers.diameter, 'step')}"
    else:
        pairs = ", of the pairs of which one hears of the other"
        listener, other = numbers.unreachable
        hearing = f"token {listener} never hears of token {other}, in any number of steps"
    return (
        f"{topology} over {counted(numbers.tokens, 'token')}{others}\n"
        f"edges       {numbers.edges}, {share:.1%} of all pairs\n"
        f"in-degrees  {numbers.min_in_degree} to {numbers.max_in_degree}, "
        f"{numbers.mean_in_degree:.2f} on average\n"
        f"diameter    {numbers.diameter}{pairs}\n"
        f"{hearing}"
    )


def _parser(argv: Sequence[str]) -> Parser:
    parser = Parser(prog="graphut topology", description="Look at who attends to whom.")
    actions = parser.add_subparsers(
        metavar="ACTION", required=True, dest="ACTION", parser_class=Parser
    )
    show = actions.add_parser(
        "show",
        help="print the edges, degrees and distances of a topology, and draw it",
        description="Print edges, in-degrees and distances between tokens; draw mask and arcs. "
        f"A spec is made of: {', '.join(spec_signatures())}; joined by | (or) and & (and).",
    )
    option = show.add_argument
    option("spec", help='such as "window:3|global:0"')
    help = "tokens of the sentence (default: 24)"
    option("--nodes", type=int, default=24, metavar="N", help=help)
    option("--out", metavar="FILE", help="draw it into this file: .png, .pdf or .svg")
    comparing = actions.add_parser(
        "compare",
        usage="graphut topology compare SPEC [SPEC ...] --task NAME [options]",
        help="train the same model under several, and compare accuracy, time and steps",
        description="Train the same model under each topology with the same seeds; print "
        "accuracy on the test set, edges, time of a batch (forward and backward), and steps.",
    )
    add_compare(comparing, argv)
    return parser
