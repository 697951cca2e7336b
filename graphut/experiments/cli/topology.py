"""`graphut topology`: describe one topology (`show`), or train with several (`compare`)."""

import sys
import warnings
from argparse import Namespace
from functools import partial
from tempfile import TemporaryDirectory

from graphut.experiments.cli.device import pick_device
from graphut.experiments.cli.options import build
from graphut.experiments.comparison import compare_topologies, comparison_text
from graphut.experiments.messages import pluralize
from graphut.experiments.tasks import TASKS, preset_of
from graphut.experiments.training import TrainingConfig, learner_of
from graphut.plotting import draw_topology
from graphut.plotting.figure import save_figure
from graphut.topology import Topology, parse, statistics
from graphut.topology.statistics import Statistics


def main(arguments: Namespace) -> int:
    """Describe one topology, or compare several."""
    if arguments.action == "compare":
        _compare(arguments)
    else:
        _show(arguments)
    return 0


def _show(arguments: Namespace) -> None:
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
        f"{numbers.mean_in_degree:.2f} on average\n"
        f"diameter    {diameter}\n"
        f"{reach}"
    )


def _compare(arguments: Namespace) -> None:
    """Train a model with each topology, and print a table of results."""
    options = {**preset_of(arguments.task), **vars(arguments)}
    task = build(TASKS[arguments.task], options)
    training, learner = build(TrainingConfig, options), learner_of(task)
    config = build(task.config_kind, options, **learner.sizes(task))
    task.check_config(config)
    with TemporaryDirectory() as temporary:
        rows = compare_topologies(
            arguments.specs,
            task,
            training,
            config,
            arguments.out or temporary,
            seeds=arguments.seeds,
            device=pick_device(arguments.device),
            report=partial(print, file=sys.stderr, flush=True),
            imports=options.get("import", ()),
            task_name=arguments.task,
        )
    print(comparison_text(rows))
