"""Pictures and animations of the frontier: the active nodes of each step and their in-edges."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.nn.checks import check_same_nodes
from graphut.plotting.figure import BLUE, edge_style, new_figure, shortened, widest
from graphut.plotting.topology import arcs

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Places: TypeAlias = Tensor | NDArray[Any]
Active: TypeAlias = Sequence[int] | Tensor | Sequence[Tensor]
MAX_NODES = 512
MAX_PANELS = 12
_COLUMNS = 4  # panels in a row, for a graph with places
_NAME_SIZE = 7.0  # points


def draw_frontier(
    graph: DGLGraph | EdgeLayout,
    steps: Active,
    *,
    names: Sequence[str] | None = None,
    places: Places | None = None,
) -> Figure:
    """Draw the active nodes of each step in blue, together with their in-edges.

    If there are more than 12 steps, 12 of them are drawn, including the first and the last.

    Parameters
    ----------
    graph : DGLGraph or EdgeLayout
        The graph of `N` nodes, at most 512.
    steps : sequence of int, Tensor, or sequence of Tensor
        `(N,)`, number of steps of each node, for example `ponder.steps`; or the ids of the active
        nodes in each step, for example `ponder.frontiers`, if halted nodes can start again.
    names : sequence of str, optional
        Names of the nodes.
    places : Tensor or array, optional
        `(N, 2)`, coordinates of the nodes. By default the nodes are on a line, like tokens.

    Examples
    --------
    >>> from graphut.topology import Window
    >>> figure = draw_frontier(Window(1).graph([3]), [1, 2, 1], names=["to", "be", "or"])
    >>> [axes.get_title() for axes in figure.axes]
    ['step 1: 3 of 3 active', 'step 2: 1 of 3 active']
    """
    draw, last, size = _scene(graph, steps, names, places)
    count = min(max(last, 1), MAX_PANELS)
    columns = 1 if places is None else min(_COLUMNS, count)
    rows = -(-count // columns)
    figure = new_figure(columns * size[0], rows * size[1])
    for index in range(count):
        step = round(1 + index * (last - 1) / max(count - 1, 1))
        draw(figure.add_subplot(rows, columns, index + 1), step)
    return figure


def place_nodes(graph: DGLGraph | EdgeLayout) -> Tensor:
    """Return coordinates `(N, 2)` with neighbours near each other (Kamada and Kawai 1989)."""
    import networkx

    layout = as_layout(graph).to("cpu")
    row, source, _ = layout.in_edges()
    drawn = networkx.Graph()
    drawn.add_nodes_from(range(layout.num_dst))
    drawn.add_edges_from(zip(source.tolist(), row.tolist(), strict=True))
    distances = {  # a finite distance between the components
        node: {**dict.fromkeys(drawn, layout.num_dst / 2), **near}
        for node, near in networkx.all_pairs_shortest_path_length(drawn)
    }
    coordinates = networkx.kamada_kawai_layout(drawn, dist=distances)
    return torch.tensor([[*coordinates[node]] for node in range(layout.num_dst)])


def animate_frontier(
    graph: DGLGraph | EdgeLayout,
    steps: Active,
    *,
    names: Sequence[str] | None = None,
    places: Places | None = None,
) -> FuncAnimation:
    """Return an animation with one frame per step, and a last one in which no node is active.

    See `draw_frontier`. `animation.save("frontier.gif", writer="pillow")` saves the animation.
    """
    draw, last, size = _scene(graph, steps, names, places)
    figure = new_figure(*size)
    from matplotlib.animation import FuncAnimation

    axes = figure.add_subplot()

    def draw_frame(step: int) -> None:
        axes.clear()
        draw(axes, step)

    # In the last frame no node is active.
    return FuncAnimation(figure, draw_frame, range(1, last + 2), interval=800)


def _scene(
    graph: DGLGraph | EdgeLayout, steps: Active, names: Sequence[str] | None, places: Places | None
) -> tuple[partial[None], int, tuple[float, float]]:
    """Return a function `draw(axes, step)`, the number of steps, and the size in inches."""
    check_same_nodes(graph)
    layout = as_layout(graph).to("cpu")
    nodes = layout.num_dst
    if places is not None and layout.num_src != nodes:
        raise ValueError("places need a graph whose sources are its destinations, not a block")
    if places is not None:
        places = torch.as_tensor(np.asarray(places, dtype=np.float64))
    if not 0 < nodes <= MAX_NODES:
        raise ValueError(f"a picture has 1 to {MAX_NODES} nodes, but the graph has {nodes}")
    names = [""] * nodes if names is None else [shortened(str(name), 12) for name in names]
    for what, values in (("names", names), ("places", places)):
        if values is not None and len(values) != nodes:
            raise ValueError(f"the graph has {nodes} nodes, but there are {len(values)} {what}")
    active = _active_nodes(steps, nodes)
    if places is not None:
        return partial(_draw_step, layout, active, names, places, 0), len(active) - 1, (2.6, 2.6)
    apart = widest(names, _NAME_SIZE)
    width = min(max(0.5 + max(0.4, apart) * nodes, 3.0), 16.0)
    turned = apart * nodes > width
    room = max(widest([name, name], _NAME_SIZE) for name in names) if turned else 0.0
    draw = partial(_draw_step, layout, active, names, places, 90 if turned else 0)
    return draw, len(active) - 1, (width, 1.2 + room)


def _active_nodes(steps: Active, nodes: int) -> Tensor:
    """Return a bool mask of active nodes, `(steps + 1, nodes)`; the last row is all False."""
    if not len(steps) or (isinstance(steps[0], Tensor) and steps[0].dim() == 1):
        active = torch.zeros(len(steps) + 1, nodes, dtype=torch.bool)
        for row, frontier in zip(active, steps, strict=False):
            if len(frontier) and int(frontier.max()) >= nodes:
                raise ValueError(
                    f"steps has node {int(frontier.max())}, but the graph has {nodes} nodes"
                )
            row[frontier.cpu()] = True
        return active
    counts = torch.as_tensor(steps).cpu()
    if len(counts) != nodes:
        raise ValueError(f"the graph has {nodes} nodes, but there are {len(counts)} steps")
    return counts >= torch.arange(1, int(counts.max()) + 2)[:, None]


def _draw_step(
    layout: EdgeLayout,
    is_active: Tensor,
    names: Sequence[str],
    places: Tensor | None,
    rotation: int,
    axes: Axes,
    step: int,
) -> None:
    """Draw the nodes and, in colour, in-edges of active nodes; with `places`, also other edges."""
    from matplotlib.collections import LineCollection

    active = is_active[step - 1]
    nodes = active.nonzero()[:, 0]
    row, source, _ = layout.in_edges(nodes)
    others = source != nodes[row]
    source, destination = source[others], nodes[row][others]
    if places is None:
        lines = arcs(source, destination)
        x, y = range(len(active)), [0.0] * len(active)
        longest = (layout.sources() - torch.repeat_interleave(layout.in_degrees)).abs().tolist()
        reach = 0.55 * max([1, *longest])
        axes.set(xlim=(-0.6, len(active) - 0.4), ylim=(-reach, reach))
    else:
        lines = torch.stack([places[source], places[destination]], 1)
        row, every, _ = layout.in_edges()
        ends = torch.stack([places[every], places[row]], 1)
        axes.add_collection(LineCollection(list(ends.numpy()), colors="0.85", zorder=0))
        x, y = places.T.tolist()
        axes.set_aspect("equal")
        axes.margins(0.12)
    style = edge_style(len(destination))
    axes.add_collection(LineCollection(list(lines.numpy()), colors=BLUE, zorder=1, **style))
    colours = [BLUE if is_active else "0.85" for is_active in active.tolist()]
    size = max(10.0, min(150.0, (4000 if places is None else 1500) / len(active)))
    axes.scatter(x, y, size, colours, edgecolors="0.4", linewidths=0.5, zorder=2)
    for place, name, is_active in zip(zip(x, y, strict=True), names, active.tolist(), strict=True):
        inside = len(name) <= 2
        axes.annotate(
            name, place, (0, 0 if inside else -7), textcoords="offset points", ha="center",
            size=min(_NAME_SIZE, 0.6 * size**0.5) if inside else _NAME_SIZE,
            va="center" if inside else "top", parse_math=False, rotation=0 if inside else rotation,
            color="white" if is_active and inside else "black" if is_active else "0.45",
        )  # fmt: skip
    title = f"step {step}: {len(nodes)} of {len(active)} active"
    axes.set_title(title if len(nodes) else "no node is active", size=9)
    axes.set_axis_off()
