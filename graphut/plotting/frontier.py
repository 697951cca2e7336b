"""Pictures and animations of the frontier: the active nodes of each step and their in-edges."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from numpy.typing import NDArray
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.models.checked_config import cut
from graphut.nn.checks import check_same_nodes
from graphut.plotting.figure import BLUE, edge_style, new_figure

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Places: TypeAlias = Tensor | NDArray[Any]
Active: TypeAlias = Sequence[int] | Tensor | Sequence[Tensor]
MAX_NODES = 512
MAX_PANELS = 12
_MOST_NAMES = 64
_COLUMNS = 4  # panels in a row
_SIDE = 2.6  # inches of a panel
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
        Names of the nodes, which are not drawn if there are more than 64.
    places : Tensor or array, optional
        `(N, 2)`, coordinates of the nodes. By default neighbours are near each other.

    Examples
    --------
    >>> from graphut.topology import Window
    >>> figure = draw_frontier(Window(1).graph([3]), [1, 2, 1], names=["to", "be", "or"])
    >>> [axes.get_title() for axes in figure.axes]
    ['step 1: 3 of 3 active', 'step 2: 1 of 3 active']
    """
    draw, last = _scene(graph, steps, names, places)
    count = min(max(last, 1), MAX_PANELS)
    columns = min(_COLUMNS, count)
    rows = -(-count // columns)
    figure = new_figure(columns * _SIDE, rows * _SIDE)
    for index in range(count):
        step = round(1 + index * (last - 1) / max(count - 1, 1))
        draw(figure.add_subplot(rows, columns, index + 1), step)
    return figure


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
    draw, last = _scene(graph, steps, names, places)
    figure = new_figure(_SIDE, _SIDE)
    from matplotlib.animation import FuncAnimation

    axes = figure.add_subplot()

    def draw_frame(step: int) -> None:
        axes.clear()
        draw(axes, step)

    # In the last frame no node is active.
    return FuncAnimation(figure, draw_frame, range(1, last + 2), interval=800)


def _scene(
    graph: DGLGraph | EdgeLayout, steps: Active, names: Sequence[str] | None, places: Places | None
) -> tuple[partial[None], int]:
    """Return a function `draw(axes, step)` and the number of steps."""
    check_same_nodes(graph)
    layout = as_layout(graph).to("cpu")
    nodes = layout.num_dst
    if not 0 < nodes <= MAX_NODES:
        raise ValueError(f"a picture has 1 to {MAX_NODES} nodes, but the graph has {nodes}")
    names = [""] * nodes if names is None else [cut(str(name), 12) for name in names]
    names = names if len(names) <= _MOST_NAMES else [""] * len(names)
    places = _place_nodes(layout) if places is None else torch.as_tensor(places).double()
    for what, values in (("names", names), ("places", places)):
        if len(values) != nodes:
            raise ValueError(f"the graph has {nodes} nodes, but there are {len(values)} {what}")
    active = _active_nodes(steps, nodes)
    return partial(_draw_step, layout, active, names, places), len(active) - 1


def _place_nodes(layout: EdgeLayout) -> Tensor:
    """Return coordinates `(N, 2)` with neighbours near each other (Kamada and Kawai 1989)."""
    import networkx

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


def _active_nodes(steps: Active, nodes: int) -> Tensor:
    """Return a bool mask of active nodes, `(steps + 1, nodes)`; the last row is all False."""
    if not len(steps) or (isinstance(steps, Sequence) and getattr(steps[0], "ndim", 0) == 1):
        active = torch.zeros(len(steps) + 1, nodes, dtype=torch.bool)
        for row, frontier in zip(active, steps, strict=False):
            row[frontier.cpu()] = True
        return active
    counts = torch.as_tensor(steps).cpu()
    if counts.shape != (nodes,):
        got = f"got shape {tuple(counts.shape)}"
        raise ValueError(f"steps must be ({nodes},), or a sequence of tensors of ids; {got}")
    return counts >= torch.arange(1, int(counts.max()) + 2)[:, None]


def _draw_step(
    layout: EdgeLayout, active: Tensor, names: Sequence[str], places: Tensor, axes: Axes, step: int
) -> None:
    """Draw nodes and edges; in colour, the active nodes of a step and their in-edges."""
    from matplotlib.collections import LineCollection

    is_active = active[step - 1].tolist()
    row, source, _ = layout.in_edges()
    edges = torch.stack([places[source], places[row]], 1).numpy()
    read = edges[(active[step - 1][row] & (source != row)).numpy()]
    axes.add_collection(LineCollection(list(edges), colors="0.85", zorder=0))
    axes.add_collection(LineCollection(list(read), colors=BLUE, zorder=1, **edge_style(len(read))))
    colours = [BLUE if active else "0.85" for active in is_active]
    size = max(10.0, min(150.0, 1500 / len(names)))
    x, y = places.T.numpy()
    axes.scatter(x, y, size, colours, edgecolors="0.4", linewidths=0.5, zorder=2)
    for place, name, blue in zip(places.tolist(), names, is_active, strict=True):
        inside = len(name) <= 2
        axes.annotate(
            name, place, (0, 0 if inside else -7), textcoords="offset points", ha="center",
            size=min(_NAME_SIZE, 0.6 * size**0.5) if inside else _NAME_SIZE,
            va="center" if inside else "top", parse_math=False,
            color="white" if blue and inside else "black" if blue else "0.45",
        )  # fmt: skip
    axes.set_aspect("equal")
    axes.margins(0.12)
    title = f"step {step}: {sum(is_active)} of {len(names)} active"
    axes.set_title(title if any(is_active) else "no node is active", size=9)
    axes.set_axis_off()
