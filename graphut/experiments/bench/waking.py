"""The benchmark of `EventDriven`: a halted node computes again when an in-neighbour changes."""

from functools import partial
from itertools import chain, product
from time import perf_counter
from typing import Any

import torch

from graphut.experiments.bench.driver import CPU, Contender, Row, measure, say
from graphut.experiments.bench.options import WakingOptions
from graphut.experiments.tasks.graph_problems import GraphDistance
from graphut.experiments.training.learners.graph_batch import GraphBatch
from graphut.models import UniversalGraphTransformer
from graphut.models.graph_inputs import until_quiescent
from graphut.models.loading import load
from graphut.models.outputs import GraphOutput
from graphut.nn import FixedDepth

WAKING, EVERY = "nodes that wake", "every node in every round"
_COMPARED = ("near", "grid", "delaunay")
_SCALED = ("path", "grid")


def bench_waking(options: WakingOptions) -> list[Row]:
    """Measure a trained model with the rule `EventDriven` on graphs with one marked node.

    The baseline has the same weights, but computes every node in each round. The error is the share
    of nodes for which both predict different classes. For each number of nodes in `scaling`, the
    model also runs once on a path and once on a grid; further rows contain the time of these runs
    per 1000 node updates, and per round.
    """
    model, baseline = load(options.run), load(options.run)
    assert isinstance(model, UniversalGraphTransformer)
    baseline.evaluation_rule = FixedDepth()
    rows = []
    for family in _COMPARED:
        batch, name = _graph(family, options.nodes), f"{family}, {options.nodes:,} nodes"
        rows += _compare(model, baseline, batch, name, options.repeats)
    scaled = [
        _scale(model, baseline, _graph(family, size), f"{family}, {size:,} nodes")
        for family, size in product(_SCALED, options.scaling)
    ]
    return [*rows, *chain(*zip(*scaled, strict=True))]  # updates, then rounds


def _compare(
    model: UniversalGraphTransformer, baseline: Any, batch: GraphBatch, name: str, repeats: int
) -> list[Row]:
    """Return a row for the model with the rule `EventDriven`, and a row for the baseline."""
    output = _run_waking(model, batch)
    rounds, updates = len(output.ponder.frontier_sizes), float(output.ponder.mean_steps)
    baseline.max_steps = rounds
    run_baseline = torch.no_grad()(partial(batch.run, baseline))
    runs: dict[str, Contender] = {
        WAKING: partial(_run_waking, model, batch), EVERY: run_baseline
    }  # fmt: skip
    answers = run_baseline().logits.argmax(1)
    error = float((answers != output.logits.argmax(1)).double().mean())
    workload = f"{name}: {rounds:,} rounds, {updates:.1f} updates of a node"
    rows = measure(workload, runs, repeats=repeats, device=CPU)
    return [{**row, "error": error} for row in rows]


@torch.no_grad()
def _scale(
    model: UniversalGraphTransformer, baseline: Any, batch: GraphBatch, name: str
) -> tuple[Row, Row]:
    """Run `model` once; return one row with the time per 1000 node updates, and one per round."""
    say(f"timing {name}")
    baseline.max_steps = 2
    batch.run(baseline)  # fills the caches of the layout
    start = perf_counter()
    ponder = _run_waking(model, batch).ponder
    ms = 1e3 * (perf_counter() - start)
    rounds, updates = len(ponder.frontier_sizes), int(ponder.steps.sum())
    awake = f"{name}, {updates / rounds:.1f} awake of {rounds:,} rounds"
    return (
        {"workload": "1000 node updates", "contender": name, "ms": 1000 * ms / updates},
        {"workload": "a round", "contender": awake, "ms": ms / rounds},
    )


def _graph(family: str, nodes: int) -> GraphBatch:
    """Return a fixed graph of a family, such as "grid", with `nodes` nodes, one of them marked."""
    sizes = f"{nodes}-{nodes}"
    return GraphBatch.of(GraphDistance(families=family, sizes=sizes, held_out=1).test, "node")


@torch.no_grad()
def _run_waking(model: UniversalGraphTransformer, batch: GraphBatch) -> GraphOutput:
    """Run the model until no node changes its state, or up to a large number of rounds."""
    with until_quiescent(model, len(batch.nodes)):
        return batch.run(model)
