"""Compare a trained model whose nodes wake with the same model in which every node computes.

    graphut train graph-distance --preset waking --out runs/distance
    python examples/benchmarks/waking.py --run runs/distance

The error is the share of nodes for which both predict different classes, and the value the time of
1000 updates of a node, in ms. `--families path --nodes 1000000 --alone` leaves out the other model.
"""

from functools import partial
from typing import Any

import common
import torch

import graphut
from graphut.experiments.tasks.graph_problems import GraphDistance
from graphut.models.graph_inputs import until_quiescent
from graphut.nn import FixedDepth, from_edge_index


@torch.no_grad()
def wake(model: Any, layout: Any, kinds: torch.Tensor) -> Any:
    with until_quiescent(model, len(kinds)):
        return model(layout, kinds)


@torch.no_grad()
def bench_waking(family: str, nodes: int, options: Any) -> list[common.Row]:
    """Return the rows for a fixed graph, such as a grid, with one marked node."""
    [graph] = GraphDistance(families=family, sizes=f"{nodes}-{nodes}", held_out=1).test
    kinds = torch.from_numpy(graph.nodes)
    layout = from_edge_index(torch.from_numpy(graph.edges), nodes)
    model, every = graphut.load(options.run), graphut.load(options.run)
    output = wake(model, layout, kinds)
    rounds, updates = len(output.ponder.frontier_sizes), float(output.ponder.mean_steps)
    every.evaluation_rule, every.max_steps = FixedDepth(), rounds
    title = f"{family}, {nodes:,} nodes: {rounds:,} rounds, {updates:.1f} updates of a node"
    runs, columns = {"nodes that wake": partial(wake, model, layout, kinds)}, {}
    if not options.alone:
        wrong = every(layout, kinds).logits.argmax(1) != output.logits.argmax(1)
        columns["error"] = float(wrong.double().mean())
        runs = {"every node in every round": torch.no_grad()(partial(every, layout, kinds)), **runs}
    rows = common.time_in_turns(title, runs, options.repeats, **columns)
    rows[-1]["value"] = 1000 * rows[-1]["ms"] / (nodes * updates)
    return rows


if __name__ == "__main__":
    defaults = {"run": "runs/distance", "nodes": 10_000, "alone": False}
    families = ("near", "grid", "delaunay")
    options = common.parse_options(__doc__, repeats=3, families=families, **defaults)
    groups = (bench_waking(family, options.nodes, options) for family in options.families)
    common.report("waking", groups, options.results)
