"""Draw the answers and the active nodes of a trained model whose nodes wake, round by round.

    graphut train graph-distance --preset waking --out runs/distance
    python examples/wave.py runs/distance --out wave.gif

One node of a grid is marked. Every other node must decide whether its distance to the marked node
is odd. All nodes compute in the first round. Afterwards a node computes only if something that it
reads has changed, so a wave travels from the marked node to the borders and dies out.
"""

import argparse
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import graphut
from graphut.attention import EdgeLayout, layout_from_edges
from graphut.models.outputs import GraphOutput
from graphut.nn import EventDriven
from graphut.plotting.figure import BLUE, WINE, check_picture_path, new_figure

EVEN, ODD = "#F4F4F4", "#F6CFA9"  # of cells
REST = 6  # frames in which the last answers stay


def grid(side: int) -> tuple[Tensor, Tensor]:
    """Return the edges of a square grid in both directions with self-loops, and coordinates."""
    node = torch.arange(side * side).view(side, side)
    across = torch.stack([node[:, :-1].flatten(), node[:, 1:].flatten()])
    down = torch.stack([node[:-1].flatten(), node[1:].flatten()])
    loops = node.flatten().expand(2, -1)
    edges = torch.cat([across, across.flip(0), down, down.flip(0), loops], dim=1)
    return edges, torch.cartesian_prod(torch.arange(side), torch.arange(side))


def answers_by_round(
    model: graphut.UniversalGraphTransformer, layout: EdgeLayout, output: GraphOutput
) -> list[Tensor]:
    """Return the answer of each node after each round."""
    states = torch.zeros(layout.num_dst, model.config.d_model)
    answers = []
    for rows in output.steps:
        states[rows.nodes] = rows.states
        answers.append(model.read_out(layout, states).argmax(1))
    return answers


def animate(frontiers: list[Tensor], answers: list[Tensor], right: Tensor, marked: int) -> Any:
    """Animate the rounds on a square grid: the answers as colours, active nodes as blue dots."""
    side = round(len(right) ** 0.5)
    figure = new_figure(5.2, 6.1)
    from matplotlib.animation import FuncAnimation
    from matplotlib.colors import ListedColormap
    from matplotlib.lines import Line2D

    dot: dict[str, Any] = {"marker": "o", "color": "#9CCDEE", "markeredgecolor": BLUE}
    cross: dict[str, Any] = {"marker": "x", "color": WINE, "markeredgewidth": 2}
    star: dict[str, Any] = {"marker": "*", "color": "black"}
    square: dict[str, Any] = {"marker": "s", "markeredgecolor": "0.6"}
    key = {
        "marked node": star, "computes": dot, "wrong answer": cross,
        "answer: odd": {**square, "color": ODD}, "answer: even": {**square, "color": EVEN},
    }  # fmt: skip
    lines = [Line2D([], [], linestyle="", markersize=9, label=k, **key[k]) for k in key]
    figure.legend(handles=lines, loc="outside lower center", ncols=3, frameon=False, fontsize=11)
    axes = figure.add_subplot()
    updates = torch.tensor([len(nodes) for nodes in frontiers]).cumsum(0) / len(right)

    def draw_frame(step: int) -> None:
        axes.clear()
        last = min(step, len(answers) - 1)
        nodes = frontiers[step] if step < len(frontiers) else torch.empty(0, dtype=torch.int64)
        wrong = (answers[last] != right).nonzero()[:, 0]
        axes.imshow(
            answers[last].view(side, side).numpy(), cmap=ListedColormap([EVEN, ODD]), vmax=1, vmin=0
        )
        size = 150 / side
        for marks, style in ((nodes, dot), (wrong, cross)):
            small = {"markersize": size * (0.9 if style is dot else 0.6)}
            axes.plot(marks % side, marks // side, linestyle="", **style, **small)
        axes.plot(marked % side, marked // side, markersize=2 * size, **star)
        active = f"{len(nodes)} of {len(right)} nodes compute" if len(nodes) else "all at rest"
        axes.set_title(
            "Is a node's distance to the star odd?\n"
            f"Round {step + 1}: {active}\n"
            f"{updates[last]:.1f} updates per node so far, {len(wrong)} wrong answers",
            size=13,
        )
        axes.set(xticks=[], yticks=[])

    frames = [*range(len(frontiers)), *[len(frontiers)] * REST]
    return FuncAnimation(figure, draw_frame, frames, interval=500)


@torch.no_grad()
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
    output = model(layout, kinds, get_steps=True)

    distance = (places - places[marked]).abs().sum(1)
    accuracy = (output.logits.argmax(1) == distance % 2).double().mean()
    ponder = output.ponder
    print(f"node accuracy {accuracy:.1%}, {ponder.mean_steps:.2f} updates per node")
    print(f"{int(ponder.rounds)} rounds, quiescent: {bool(ponder.quiescent)}")

    answers = answers_by_round(model, layout, output)
    animation = animate(ponder.frontiers, answers, distance % 2, marked)
    animation.save(options.out, writer="pillow", dpi=100)


if __name__ == "__main__":
    main()
