"""Pictures of topologies: the attention mask, and the edges as arcs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphut.models.checked_config import cut
from graphut.plotting.figure import BLUE, ORANGE, WINE, edge_style, new_figure, number_ticks
from graphut.topology import Topology, parse

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_NODES = 512
PAST, FUTURE, EXTRA = range(1, 4)
KINDS = {
    PAST: ("from earlier tokens and itself", BLUE),
    FUTURE: ("from later tokens", ORANGE),
    EXTRA: ("from or to extra nodes", WINE),
}


def draw_topology(topology: Topology | str, n: int) -> Figure:
    """Draw the mask and the arcs of a topology (or spec) for a sentence of `n` tokens.

    Rows of the mask are destinations. Arcs run clockwise from source to destination: above the line
    from earlier tokens, below it from later ones. There may be at most 512 nodes.

    Examples
    --------
    >>> from graphut.topology import Window
    >>> figure = draw_topology(Window(2), 12)
    >>> [axes.get_title() for axes in figure.axes]
    ['attention mask', 'edges, clockwise from source to destination: 54']
    """
    topology = parse(topology)
    nodes = topology.num_nodes(n)
    if nodes > MAX_NODES:
        raise ValueError(f"a picture has at most {MAX_NODES} nodes, got {nodes}")
    mask = topology.mask(n)
    figure = new_figure(11, 5.6)
    from matplotlib.patches import Patch

    figure.suptitle(f"{cut(str(topology), 80)}, length {n}")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    kinds = torch.where(torch.ones_like(mask).triu(1), FUTURE, PAST)
    kinds[n:], kinds[:, n:] = EXTRA, EXTRA
    kinds = kinds * mask  # 0 where there is no edge
    _draw_mask(left, kinds, n)
    _draw_arcs(right, kinds, n)
    present = [KINDS[kind] for kind in kinds.unique().tolist() if kind]
    if present:
        patches = [Patch(color=colour, label=label) for label, colour in present]
        figure.legend(handles=patches, loc="outside lower center", ncols=3, frameon=False)
    return figure


def arcs(source: Tensor, destination: Tensor) -> Tensor:
    """Return points, `(edges, points, 2)`, of clockwise half circles from source to destination."""
    angle = torch.linspace(torch.pi, 0, 33)
    middle = (source + destination)[:, None] / 2
    radius = (destination - source)[:, None] / 2
    return torch.stack([middle + radius * angle.cos(), radius * angle.sin()], dim=2)


def _draw_mask(axes: Axes, kinds: Tensor, n: int) -> None:
    from matplotlib.colors import ListedColormap

    colours = ListedColormap(["white", *(colour for _, colour in KINDS.values())])
    axes.imshow(kinds.numpy(), cmap=colours, vmin=0, vmax=len(KINDS), interpolation="nearest")
    nodes = len(kinds)
    if nodes <= 64:
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks([i - 0.5 for i in range(1, nodes)], minor=True)
        axes.grid(which="minor", color="0.88", linewidth=0.5)
        axes.tick_params(which="minor", length=0)
    if nodes > n:
        axes.axhline(n - 0.5, color="0.3", linewidth=1)
        axes.axvline(n - 0.5, color="0.3", linewidth=1)
    axes.set(title="attention mask", xlabel="source", ylabel="destination")
    number_ticks(axes.xaxis, axes.yaxis)


def _draw_arcs(axes: Axes, kinds: Tensor, n: int) -> None:
    from matplotlib.collections import LineCollection

    destination, source = kinds.nonzero(as_tuple=True)
    kind = kinds[destination, source]
    style = edge_style(len(kind))
    for wanted, (_, colour) in KINDS.items():
        chosen = (kind == wanted) & (destination != source)
        lines = arcs(source[chosen], destination[chosen])
        axes.add_collection(LineCollection(list(lines.numpy()), colors=colour, **style))
    nodes = len(kinds)
    size = max(2.0, min(7.0, 160 / nodes))
    axes.plot(range(n), [0] * n, "o", color="black", markersize=size)
    axes.plot(range(n, nodes), [0] * (nodes - n), "s", color=WINE, markersize=size + 1)
    axes.set(title=f"edges, clockwise from source to destination: {len(kind)}", xlabel="node")
    lengths = (destination - source).tolist()
    above, below = max([0, *lengths]) / 2, min([0, *lengths]) / 2
    margin = 0.08 * max(1.0, above - below)
    axes.set(xlim=(-0.5 - nodes / 50, nodes - 0.5 + nodes / 50), yticks=[])
    axes.set_ylim(below - margin, above + margin)
    axes.spines[:].set_visible(False)
    number_ticks(axes.xaxis)
