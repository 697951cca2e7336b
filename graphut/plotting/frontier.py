"""Pictures of the frontier: which nodes are active in each step, and what they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.nn.checks import check_same_nodes
from graphut.plotting.arcs import arcs, line_style
from graphut.plotting.cells import widest
from graphut.plotting.figure import BLUE, new_figure, shortened

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Places: TypeAlias = "Tensor | NDArray[Any] | Mapping[int, Any] | Sequence[Any]"
MAX_NODES = 512
MAX_PANELS = 12
_COLUMNS = 4  # of panels with a graph
_NAME_SIZE = 7.0  # points


def draw_frontier(
    graph: DGLGraph | EdgeLayout,
    steps: Sequence[int] | Tensor,
    *,
    names: Sequence[str] | None = None,
    places: Places | None = None,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Draw a sentence or a graph at each step: blue nodes are active and read along the edges.

    Of more than 12 steps, 12 are drawn, from the first to the last.

    Parameters
    ----------
    graph : DGLGraph or EdgeLayout
        The graph of `N` nodes along which they attend.
    steps : sequence of int or Tensor
        `(N,)`, the steps that each node took, such as `ponder.steps`.
    names : sequence of str, optional
        Names of the nodes.
    places : Tensor, array or dict, optional
        `(N, 2)`, where nodes are drawn; or a place for each node's id, such as those that
        `networkx.kamada_kawai_layout` finds. Without places they stand on a line, as tokens do.
    figure : Figure or SubFigure, optional
        An empty one to draw on, and to return.

    Raises
    ------
    ValueError
        If steps, names or places are not those of the graph's nodes, or there are too many nodes.

    Examples
    --------
    >>> from graphut.topology import Window
    >>> figure = draw_frontier(Window(1).graph([3]), [1, 2, 1], names=["to", "be", "or"])
    >>> [axes.get_title() for axes in figure.axes]
    ['step 1: 3 of 3 active', 'step 2: 1 of 3 active']
    """
    draw, last, size = _scene(graph, steps, names, places)
    count = min(last, MAX_PANELS)
    columns = 1 if places is None else min(_COLUMNS, count)
    rows = -(-count // columns)
    if figure is None:
        figure = new_figure(columns * size[0], rows * size[1])
    for index in range(count):
        step = round(1 + index * (last - 1) / max(count - 1, 1))
        draw(figure.add_subplot(rows, columns, index + 1), step)
    return figure


def animate_frontier(
    graph: DGLGraph | EdgeLayout,
    steps: Sequence[int] | Tensor,
    *,
    names: Sequence[str] | None = None,
    places: Places | None = None,
) -> FuncAnimation:
    """Return what `draw_frontier` draws as an animation, of which each step is a frame.

    `animation.save("frontier.gif", writer="pillow")` writes it. Parameters and errors are those of
    `draw_frontier`.
    """
    draw, last, size = _scene(graph, steps, names, places)
    figure = new_figure(*size)
    from matplotlib.animation import FuncAnimation

    axes = figure.add_subplot()

    def draw_frame(step: int) -> None:
        axes.clear()
        draw(axes, step)

    # In the last frame all have halted.
    return FuncAnimation(figure, draw_frame, range(1, last + 2), interval=800)


def _scene(
    graph: DGLGraph | EdgeLayout,
    steps: Sequence[int] | Tensor,
    names: Sequence[str] | None,
    places: Places | None,
) -> tuple[partial[None], int, tuple[float, float]]:
    """Return a function of axes and a step that draws, the last step, and a size in inches."""
    check_same_nodes(graph)
    layout, steps = as_layout(graph).to("cpu"), torch.as_tensor(steps).cpu()
    nodes = layout.num_dst
    if places is not None and layout.num_src != nodes:
        raise ValueError("places are for a graph whose sources are its destinations, not a block")
    if isinstance(places, Mapping):
        if places.keys() != {*range(nodes)}:
            raise ValueError(f"places must be of the nodes 0 to {nodes - 1}, got {[*places]}")
        places = [places[node] for node in range(nodes)]
    if places is not None:
        places = torch.as_tensor(np.asarray(places, dtype=np.float64))
    if not 0 < nodes <= MAX_NODES:
        raise ValueError(f"a picture has 1 to {MAX_NODES} nodes, and the graph {nodes}")
    names = [""] * nodes if names is None else [shortened(str(name), 12) for name in names]
    counts = {"steps": len(steps), "names": len(names)}
    counts["places"] = nodes if places is None else len(places)
    for what, count in counts.items():
        if count != nodes:
            raise ValueError(f"the graph has {nodes} nodes, but there are {count} {what}")
    if places is not None:
        return partial(_draw_step, layout, steps, names, places, 0), int(steps.max()), (2.6, 2.6)
    apart = widest(names, _NAME_SIZE)
    width = min(max(0.5 + max(0.4, apart) * nodes, 3.0), 16.0)
    turned = apart * nodes > width
    room = max(widest([name, name], _NAME_SIZE) for name in names) if turned else 0.0
    draw = partial(_draw_step, layout, steps, names, places, 90 if turned else 0)
    return draw, int(steps.max()), (width, 1.2 + room)


def _draw_step(
    layout: EdgeLayout,
    steps: Tensor,
    names: Sequence[str],
    places: Tensor | None,
    rotation: int,
    axes: Axes,
    step: int,
) -> None:
    """Draw the nodes, and the edges along which active ones read; of a graph all edges, faintly."""
    from matplotlib.collections import LineCollection

    active = steps >= step
    nodes = active.nonzero()[:, 0]
    row, source, _ = layout.in_edges(nodes)
    others = source != nodes[row]
    source, reader = source[others], nodes[row][others]
    if places is None:
        lines = arcs(source, reader)
        x, y = range(len(steps)), [0.0] * len(steps)
        longest = (layout.sources() - torch.repeat_interleave(layout.in_degrees)).abs().tolist()
        reach = 0.55 * max([1, *longest])
        axes.set(xlim=(-0.6, len(steps) - 0.4), ylim=(-reach, reach))
    else:
        lines = torch.stack([places[source], places[reader]], 1)
        row, every, _ = layout.in_edges()
        ends = torch.stack([places[every], places[row]], 1)
        axes.add_collection(LineCollection(list(ends.numpy()), colors="0.85", zorder=0))
        x, y = places.T.tolist()
        axes.set_aspect("equal")
        axes.margins(0.12)
    style = line_style(len(reader))
    axes.add_collection(LineCollection(list(lines.numpy()), colors=BLUE, zorder=1, **style))
    colours = [BLUE if is_active else "0.85" for is_active in active.tolist()]
    size = max(10.0, min(150.0, (4000 if places is None else 1500) / len(steps)))
    axes.scatter(x, y, size, colours, edgecolors="0.4", linewidths=0.5, zorder=2)
    for place, name, is_active in zip(zip(x, y, strict=True), names, active.tolist(), strict=True):
        inside = len(name) <= 2
        axes.annotate(
            name, place, (0, 0 if inside else -7), textcoords="offset points", ha="center",
            size=min(_NAME_SIZE, 0.6 * size**0.5) if inside else _NAME_SIZE,
            va="center" if inside else "top", parse_math=False, rotation=0 if inside else rotation,
            color="white" if is_active and inside else "black" if is_active else "0.45",
        )  # fmt: skip
    title = f"step {step}: {len(nodes)} of {len(steps)} active" if len(nodes) else "all have halted"
    axes.set_title(title, size=9)
    axes.set_axis_off()
