"""`graphut topology`: describe and draw a topology."""

import warnings
from argparse import Namespace

from graphut.experiments.messages import pluralize
from graphut.plotting import draw_topology
from graphut.plotting.figure import save_figure
from graphut.topology import Topology, parse, statistics
from graphut.topology.measures import Statistics


def main(arguments: Namespace) -> int:
    """Print the edges, in-degrees and distances of a topology, and draw it with `--out`."""
    topology = parse(arguments.spec)
    numbers = statistics(topology, arguments.nodes)
    print(describe(topology, numbers))
    if numbers.min_in_degree == 0:
        warnings.warn(
            f"{topology} has nodes without in-edges among {pluralize(numbers.tokens, 'token')}: a "
            "model refuses such a sentence; add '|window:0', so that each token attends to itself",
            stacklevel=2,
        )
    if arguments.out is not None:
        save_figure(draw_topology(topology, arguments.nodes), arguments.out)
    return 0


def describe(topology: Topology, numbers: Statistics) -> str:
    """Return a text with the number of edges, the in-degrees and the distances of a topology."""
    extra = numbers.nodes - numbers.tokens
    others = f" and {pluralize(extra, 'extra node')}" if extra else ""
    share = numbers.edges / numbers.nodes**2
    if numbers.unreachable is None:
        diameter = str(numbers.diameter)
        reach = f"after {pluralize(numbers.diameter, 'step')} each token depends on all tokens"
    else:
        diameter = f"{numbers.diameter}, over the pairs that are connected"
        reach = "token {} never depends on token {}".format(*numbers.unreachable)
    return (
        f"{topology} over {pluralize(numbers.tokens, 'token')}{others}\n"
        f"edges       {numbers.edges}, {share:.1%} of all pairs\n"
        f"in-degrees  {numbers.min_in_degree} to {numbers.max_in_degree}, "
        f"{numbers.edges / numbers.nodes:.2f} on average\n"
        f"diameter    {diameter}\n"
        f"{reach}"
    )
