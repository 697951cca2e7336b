"""Use an adaptive graph layer, with its own depth for every node, inside an ordinary DGL model.

The task needs depth. In a forest of paths only the first node of each path has a colour, and every
node must predict the colour of its path. The colour travels one edge per step, so distant nodes
need more steps. The model is a linear map, an adaptive recurrence over the edges of the graph, and
a classifier. The number of steps of each node is learned.

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

import dgl  # isort: skip  (after graphut, which makes DGL work with a current torch)

COLOURS = 4


class AdaptiveNet(nn.Module):
    """Classify nodes; like every DGL model it takes the graph first and then the features."""

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
    """Return random paths: graph, features, labels, and distances from the coloured node."""
    lengths = torch.randint(1, longest + 1, (count,))
    graphs = [dgl.graph((range(n - 1), range(1, n)), num_nodes=n) for n in lengths.tolist()]
    graph = dgl.add_self_loop(dgl.batch(graphs))
    colour = torch.repeat_interleave(torch.randint(COLOURS, (count,)), lengths)
    distance = torch.cat([torch.arange(n) for n in lengths.tolist()])
    shown = torch.where(
        distance == 0, colour, COLOURS
    )  # only the first node of a path has a colour
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
    correct = (logits.argmax(1) == colour).double()
    share = ponder.flops / ponder.all_flops
    print(f"node accuracy {correct.mean():.1%}, with {share:.0%} of the FLOPs without halting")
    for d in range(options.longest):
        here = distance == d
        steps = graph.ndata["steps"][here].double().mean()
        print(f"distance {d}: accuracy {correct[here].mean():.1%}, {steps:.2f} steps")


if __name__ == "__main__":
    main()
