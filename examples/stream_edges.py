"""Stream edges into a graph, and let only the affected nodes of a trained model compute.

    graphut train graph-reach --preset waking --out runs/reach
    python examples/stream_edges.py runs/reach

Each node says whether a marked node is in its component. The graph begins as many components, and
one of them has the mark. Then edges arrive one by one. After each edge the model continues from the
states of the nodes, which are at rest, and only nodes that the news reaches compute.

A removed edge needs a new start. Neighbours that were reached confirm each other, so they stay
"reached" after the edge to the mark is gone.
"""

import argparse
from dataclasses import replace

import torch
from torch import Tensor

import graphut
from graphut.attention import EdgeLayout, layout_from_edges
from graphut.models.outputs import GraphOutput
from graphut.nn import EventDriven


def forest(trees: int, size: int) -> Tensor:
    """Return the edges `(2, E)` of random trees; the parent of a node is one of the 3 before it."""
    child = torch.arange(1, size)
    parent = child - 1 - (torch.rand(trees, size - 1) * child.clamp_max(3)).long()
    start = size * torch.arange(trees)[:, None]
    return torch.stack([(parent + start).flatten(), (child + start).flatten()])


def layout_of(edges: Tensor, nodes: int) -> EdgeLayout:
    """Return the layout of edges in both directions, with self-loops."""
    loops = torch.arange(nodes).expand(2, -1)
    both = torch.cat([edges, edges.flip(0), loops], dim=1)
    return layout_from_edges(*both, num_src=nodes, num_dst=nodes)


def reached(edges: Tensor, nodes: int) -> Tensor:
    """Return the correct answers: whether each node is connected to node 0."""
    found = torch.zeros(nodes, dtype=torch.bool)
    found[0], before = True, 0
    while int(found.sum()) > before:
        before = int(found.sum())
        for source, target in (edges, edges.flip(0)):
            found[target[found[source]]] = True
    return found


def accuracy(output: GraphOutput, edges: Tensor) -> float:
    """Return the share of nodes with the correct answer."""
    answers = output.logits.argmax(1) == 1
    return (answers == reached(edges, len(answers))).double().mean().item()


def proceed(
    model: graphut.UniversalGraphTransformer,
    before: GraphOutput,
    kinds: Tensor,
    edges: Tensor,
    ends: Tensor,
    change: str,
) -> GraphOutput:
    """Continue after the change of one edge, compare with a new start, and return the output."""
    layout = layout_of(edges, len(kinds))
    output = model.resume(before.ponder, layout, kinds, edges_into=ends)
    anew = model(layout, kinds)
    print(
        f"edge {ends[0]}-{ends[1]} {change}: {int(output.ponder.steps.sum())} updates "
        f"({int(anew.ponder.steps.sum())} from a new start), "
        f"accuracy {accuracy(output, edges):.2%} ({accuracy(anew, edges):.2%})"
    )
    return output


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", help="folder of a run of graph-reach with the preset waking")
    parser.add_argument("--trees", type=int, default=6, help="components (default: 6)")
    parser.add_argument("--size", type=int, default=150, help="nodes of each (default: 150)")
    options = parser.parse_args()
    if options.trees < 2 or options.size < 2:
        parser.error("--trees and --size must be at least 2")

    torch.manual_seed(0)
    nodes = options.trees * options.size
    try:
        model = graphut.load(options.run).eval()
    except (ImportError, OSError, ValueError) as error:
        parser.error(str(error))
    wakes = isinstance(model.evaluation_rule, EventDriven)
    if not wakes or getattr(model.config, "num_kinds", 0) != 2:
        parser.error(f"{options.run} is not a run of graph-reach with the preset waking")
    model.evaluation_rule = replace(model.evaluation_rule, max_rounds=4 * nodes)  # a bound
    kinds = torch.zeros(nodes, dtype=torch.int64)
    kinds[0] = 1
    edges = forest(options.trees, options.size)
    output = model(layout_of(edges, nodes), kinds)
    print(
        f"start: {int(output.ponder.steps.sum())} updates, accuracy {accuracy(output, edges):.2%}"
    )

    for tree in range(1, options.trees):  # an edge from a node of each tree to one before it
        ends = torch.randint(options.size, (2,)) + options.size * torch.tensor([tree - 1, tree])
        edges = torch.cat([edges, ends[:, None]], dim=1)
        output = proceed(model, output, kinds, edges, ends, "added")

    ends, edges = edges[:, -1], edges[:, :-1]
    proceed(model, output, kinds, edges, ends, "removed")


if __name__ == "__main__":
    main()
