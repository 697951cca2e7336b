"""Learn shortest paths exactly: nine weights, and nodes that compute until nothing changes.

Each node holds a number, its register, that no matrix touches (`RegisterMessages`). Training learns
from the distances alone which operation on the in-edges makes the next register. The data is that
of arXiv 2210.09789 (A-DGN): generated graphs with 25 to 35 nodes, and the distances of all nodes to
one of them; the score is the logarithm (base 10) of the mean squared error.

    python examples/shortest_paths.py --seed 0

The last rows are larger graphs of the families of arXiv 2512.17762 (ECHO), with longer paths.
"""

import argparse
import math
import random
from collections.abc import Callable

import networkx as nx
import torch
from torch import Tensor

from graphut.nn import (
    AdaptiveRecurrence,
    EventDriven,
    RegisterMessages,
    UniversalTransformerStep,
    from_edge_index,
)


def lobster(nodes: int, rng: random.Random) -> nx.Graph:
    """Return a path whose other nodes hang on it, or on a neighbour of it."""
    graph, spine = nx.path_graph(nodes // 2), nodes // 2
    for node in range(spine, nodes):
        graph.add_edge(node, rng.randrange(node if rng.random() < 0.5 else spine))
    return graph


def caterpillar(nodes: int, rng: random.Random) -> nx.Graph:
    graph, spine = nx.path_graph(nodes // 2), nodes // 2
    graph.add_edges_from((node, rng.randrange(spine)) for node in range(spine, nodes))
    return graph


FAMILIES: dict[str, Callable[[int, random.Random], nx.Graph]] = {
    "erdos-renyi": lambda n, rng: nx.gnp_random_graph(n, rng.uniform(0.1, 0.4), seed=rng),
    "barabasi-albert": lambda n, rng: nx.barabasi_albert_graph(n, rng.randint(1, 4), seed=rng),
    "caveman": lambda n, rng: nx.connected_caveman_graph(n // 5, 5),
    "star": lambda n, rng: nx.star_graph(n - 1),
    "line": lambda n, rng: nx.path_graph(n),
    "ladder": lambda n, rng: nx.ladder_graph(n // 2),
    "grid": lambda n, rng: nx.grid_2d_graph(rng.randint(3, 6), n // 6),
    "tree": lambda n, rng: nx.from_prufer_sequence([rng.randrange(n) for _ in range(n - 2)]),
    "caterpillar": caterpillar,
    "lobster": lobster,
}
ECHO = ("line", "ladder", "grid", "tree", "caterpillar", "lobster")


def draw(family: str, nodes: int, rng: random.Random) -> tuple[Tensor, Tensor, Tensor]:
    """Return edges with self-loops, a mask of the source, and the distances, of one component."""
    graph = FAMILIES[family](nodes, rng)
    graph = graph.subgraph(max(nx.connected_components(graph), key=len))
    graph = nx.convert_node_labels_to_integers(graph)
    source = rng.randrange(len(graph))
    ends = torch.tensor([*graph.edges]).T
    loops = torch.arange(len(graph)).expand(2, -1)
    far = nx.single_source_shortest_path_length(graph, source)
    distance = torch.tensor([float(far[node]) for node in range(len(graph))], dtype=torch.double)
    return torch.cat([ends, ends.flip(0), loops], 1), torch.arange(len(graph)) == source, distance


def build() -> AdaptiveRecurrence:
    step = UniversalTransformerStep(RegisterMessages(), None, norm=None, residual=False)  # type: ignore[arg-type]
    options = {"position_signal": None, "step_signal": None, "inject_input": True, "max_steps": 4}
    return AdaptiveRecurrence(step, evaluation_rule=EventDriven(max_rounds=1000), **options)


def train(layer: AdaptiveRecurrence, updates: int, rng: random.Random) -> None:
    messages = layer.step.attention
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(updates):
        loss = torch.zeros(())
        for family in rng.choices([*FAMILIES], k=4):
            edges, is_start, distance = draw(family, rng.randint(25, 35), rng)
            graph, states = from_edge_index(edges, len(is_start)), messages.first_states(is_start)
            near = distance < layer.max_steps  # registers that are final after these rounds
            rows = layer(graph, states)[0][near]
            loss = loss + (rows[:, 0] - distance[near]).square().mean()
            loss = loss + (rows[:, 1] - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def evaluate(
    layer: AdaptiveRecurrence, family: str, sizes: range, graphs: int, rng: random.Random
) -> tuple[float, int, float]:
    """Return the mean squared error of some graphs, their longest path, and the updates a node."""
    square, longest, updates, nodes = 0.0, 0, 0, 0
    for _ in range(graphs):
        edges, is_start, distance = draw(family, rng.choice(sizes), rng)
        graph = from_edge_index(edges, len(is_start))
        out, ponder = layer(graph, layer.step.attention.first_states(is_start))
        square += float((out[:, 0] - distance).square().sum())
        longest = max(longest, int(distance.max()))
        updates, nodes = updates + int(ponder.steps.sum()), nodes + len(distance)
    return square / nodes, longest, updates / nodes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--graphs", type=int, default=32, help="test graphs of a family (32)")
    o = parser.parse_args()
    torch.manual_seed(o.seed)
    rng, layer = random.Random(o.seed), build()
    train(layer, o.updates, rng)
    layer.eval()
    print(f"seed {o.seed}: the register is the {layer.step.attention.extra_repr()}")
    for name, families, sizes in (
        ("25-35", [*FAMILIES], range(25, 36)),
        ("36-81", ECHO, range(36, 82)),
    ):
        total = 0.0
        for family in families:
            error, longest, updates = evaluate(layer, family, sizes, o.graphs, rng)
            total += error / len(families)
            score = f"{math.log10(error):.2f}" if error else "-inf"
            print(
                f"{name} nodes {family:>16}  log10(MSE) {score:>6}  longest path {longest:>3}  "
                f"updates {updates:.2f}"
            )
        print(f"{name} nodes, all families: mean squared error {total:.3g}")


if __name__ == "__main__":
    main()
