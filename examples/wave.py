"""Draw which nodes of a graph compute in each round of a trained model whose nodes wake.

    graphut train graph-distance --preset waking --out runs/distance
    python examples/wave.py runs/distance --out wave.gif

One node of a grid is marked. Every other node must decide whether its distance to the marked node
is odd. All nodes compute in the first round. Afterwards a node computes only if something that it
reads has changed, so a wave travels from the marked node to the borders and dies out.
"""

import argparse
from dataclasses import replace

import torch

import graphut
from graphut.attention import layout_from_edges
from graphut.nn import EventDriven
from graphut.plotting import animate_frontier
from graphut.plotting.figure import check_picture_path


def grid(side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the edges of a square grid in both directions with self-loops, and coordinates."""
    node = torch.arange(side * side).view(side, side)
    across = torch.stack([node[:, :-1].flatten(), node[:, 1:].flatten()])
    down = torch.stack([node[:-1].flatten(), node[1:].flatten()])
    loops = node.flatten().expand(2, -1)
    edges = torch.cat([across, across.flip(0), down, down.flip(0), loops], dim=1)
    return edges, torch.cartesian_prod(torch.arange(side), torch.arange(side))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", help="folder of a run of graph-distance with the preset waking")
    parser.add_argument("--side", type=int, default=16, help="rows of the grid (default: 16)")
    parser.add_argument("--out", default="wave.gif", help="animation to write (default: wave.gif)")
    options = parser.parse_args()
    if not 2 <= options.side <= 22:
        parser.error(f"--side must be from 2 to 22, got {options.side}")
    if not options.out.endswith(".gif"):
        parser.error(f"--out must end in .gif, got {options.out}")

    try:
        check_picture_path(options.out, "gif")
        model = graphut.load(options.run).eval()
    except (ImportError, OSError, ValueError) as error:
        parser.error(str(error))
    wakes = isinstance(model.evaluation_rule, EventDriven)
    if not wakes or getattr(model.config, "num_kinds", 0) != 2:
        parser.error(f"{options.run} is not a run of graph-distance with the preset waking")
    edges, places = grid(options.side)
    nodes = options.side**2
    model.evaluation_rule = replace(model.evaluation_rule, max_rounds=4 * nodes)  # a bound
    marked = (options.side // 3) * (options.side + 1)
    layout = layout_from_edges(*edges, num_src=nodes, num_dst=nodes)
    kinds = torch.zeros(nodes, dtype=torch.int64)
    kinds[marked] = 1
    with torch.no_grad():
        output = model(layout, kinds, get_steps=True)

    distance = (places - places[marked]).abs().sum(1)
    accuracy = (output.logits.argmax(1) == distance % 2).double().mean()
    ponder = output.ponder
    print(f"node accuracy {accuracy:.1%}, {ponder.mean_steps:.2f} updates per node")
    print(f"{int(ponder.rounds)} rounds, quiescent: {bool(ponder.quiescent)}")

    names = ["*" if node == marked else "" for node in range(nodes)]
    animation = animate_frontier(layout, ponder.frontiers, names=names, places=places)
    animation.save(options.out, writer="pillow", dpi=110)


if __name__ == "__main__":
    main()
