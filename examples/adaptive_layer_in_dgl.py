"""A graph layer with a depth of its own for every node, inside an ordinary DGL model.

The task needs depth: in a forest of paths, some nodes bear a colour and every other one is to take
the colour of the end that its path leads to. A node near the end knows soon, a far one late. The
model is a linear map, an adaptive recurrence on the graph's edges, and a classifier; how many steps
each node takes is learned with the rest.

    python examples/adaptive_layer_in_dgl.py
"""

import argparse

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from graphut.nn import (
    AdaptiveRecurrence,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    UniversalTransformerStep,
)

import dgl  # isort: skip  (after graphut, which makes it import on a torch it does not know)

COLOURS = 4


class AdaptiveNet(nn.Module):
    """Written like any DGL model: the graph comes first, then the features."""

    def __init__(self, in_feats: int, hidden: int, classes: int, max_steps: int) -> None:
        super().__init__()
        self.embed = nn.Linear(in_feats, hidden)
        step = UniversalTransformerStep(
            MultiHeadAttention(hidden, num_heads=4), PositionwiseTransition(hidden, 2 * hidden)
        )
        self.recurrence = AdaptiveRecurrence(step, HaltingUnit(hidden), max_steps=max_steps)
        self.classify = nn.Linear(hidden, classes)

    def forward(self, graph, feat):  # (nodes, in_feats) -> (nodes, classes)
        hidden, ponder = self.recurrence(graph, self.embed(feat))
        return self.classify(hidden), ponder


def paths(count: int, longest: int) -> tuple[dgl.DGLGraph, Tensor, Tensor, Tensor]:
    """Random paths: graph, features, the colour to find, and the distance from its end."""
    lengths = torch.randint(1, longest + 1, (count,))
    graphs = [dgl.graph((range(n - 1), range(1, n)), num_nodes=n) for n in lengths.tolist()]
    graph = dgl.add_self_loop(dgl.batch(graphs))
    colour = torch.repeat_interleave(torch.randint(COLOURS, (count,)), lengths)
    distance = torch.cat([torch.arange(n) for n in lengths.tolist()])
    shown = torch.where(distance == 0, colour, COLOURS)  # only a path's end shows its colour
    return graph, one_hot(shown, COLOURS + 1).float(), colour, distance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--updates", type=int, default=400, help="default: 400")
    parser.add_argument("--longest", type=int, default=6, help="nodes in a path (default: 6)")
    options = parser.parse_args()
    if options.longest < 1:
        parser.error(f"--longest must be at least 1, got {options.longest}")

    torch.manual_seed(0)
    model = AdaptiveNet(COLOURS + 1, hidden=32, classes=COLOURS, max_steps=options.longest + 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(options.updates):
        graph, feat, colour, _ = paths(64, options.longest)
        logits, ponder = model(graph, feat)
        loss = cross_entropy(logits, colour) + 0.01 * ponder.cost
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    model.eval()
    graph, feat, colour, distance = paths(500, options.longest)
    with torch.no_grad():
        logits, ponder = model(graph, feat)
    graph.ndata["steps"] = ponder.steps  # depth is node data like any other
    right = (logits.argmax(1) == colour).double()
    done = ponder.flops / ponder.all_flops
    print(f"{right.mean():.1%} of nodes right, with {done:.0%} of the work of all steps for all")
    for d in range(options.longest):
        here = distance == d
        steps = graph.ndata["steps"][here].double().mean()
        print(f"{d} edges from the end: {right[here].mean():.1%} right, {steps:.2f} steps")


if __name__ == "__main__":
    main()
