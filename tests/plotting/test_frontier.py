from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from PIL import Image

from graphut._dgl import dgl
from graphut.attention import layout_from_edges
from graphut.plotting import animate_frontier, draw_frontier
from graphut.plotting.figure import BLUE
from graphut.topology import Causal, Complete, Window
from tests.helpers import refuses
from tests.plotting.pictures import assert_nothing_is_cut_off

STEPS = [2, 1, 3]


def active_of(axes: Axes) -> list[int]:
    """Return the nodes that are blue."""
    colours = axes.collections[-1].get_facecolors()
    return [node for node, colour in enumerate(colours) if tuple(colour) == to_rgba(BLUE)]


def edges_of(axes: Axes, collection: int = 1) -> set[tuple[int, int]]:
    """Return the blue edges, or the grey ones, between nodes whose number is their x."""
    ends = (path.vertices[:, 0] for path in axes.collections[collection].get_paths())
    return {(round(source), round(reader)) for source, reader in ends}


def test_draw_frontier_colours_active_nodes_and_the_edges_that_they_read() -> None:
    graph, names = Causal().graph([3]), ["a", "<eos>", "c"]
    figure = draw_frontier(graph, STEPS, names=names, places=np.array([[0, 1], [1, 3], [2, 0]]))
    assert edges_of(figure.axes[2], 0) >= {(0, 1), (0, 2), (1, 2)}
    assert [active_of(axes) for axes in figure.axes] == [[0, 1, 2], [0, 2], [2]]
    into_last = {(0, 2), (1, 2)}
    assert [edges_of(axes) for axes in figure.axes] == [{(0, 1), *into_last}, into_last, into_last]
    assert [axes.get_title() for axes in figure.axes] == [
        f"step {step}: {active} of 3 active" for step, active in ((1, 3), (2, 2), (3, 1))
    ]
    assert [text.get_text() for text in figure.axes[0].texts] == ["a", "<eos>", "c"]


def test_draw_frontier_shows_nodes_that_wake() -> None:
    frontiers = [[0, 1, 2], [1], [0, 2]]
    figure = draw_frontier(Causal().graph([3]), [*map(torch.tensor, frontiers)])
    assert [active_of(axes) for axes in figure.axes] == frontiers


def test_draw_frontier_places_neighbours_near_each_other() -> None:
    layout = layout_from_edges(torch.arange(6), torch.arange(1, 7), num_src=9, num_dst=9)
    places = draw_frontier(layout, [1] * 9).axes[0].collections[-1].get_offsets()
    apart = np.linalg.norm(places[:, None] - places, axis=-1)  # of a path and two single nodes
    assert np.isfinite(apart).all() and apart[0].argmax() > 5
    assert (np.diff(apart[0, :7]) > 0).all()


def test_draw_frontier_of_many_steps_shows_some_and_the_last() -> None:
    figure = draw_frontier(Window(1).graph([65]), torch.arange(1, 66) % 41, names=["a"] * 65)
    assert not any(text.get_text() for text in figure.axes[0].texts)  # too many to read
    steps = [int(axes.get_title().split(":")[0].removeprefix("step ")) for axes in figure.axes]
    assert len(steps) == 12 and steps[0] == 1 and steps[-1] == 40
    assert steps == sorted(set(steps))


@pytest.mark.parametrize("nodes", [1, 7, 60])
def test_draw_frontier_cuts_nothing_off(nodes: int) -> None:
    graph = Complete().graph([nodes]) if nodes < 60 else Window(2).graph([nodes])
    steps, names = 1 + torch.arange(nodes) % 5, [f"n{i}" for i in range(nodes)]
    assert_nothing_is_cut_off(draw_frontier(graph, steps, names=names))


def test_draw_frontier_refuses_what_does_not_fit() -> None:
    def check(words: str, **changed: Any) -> None:
        refuses(words, draw_frontier, **{"graph": Causal().layout([3]), "steps": STEPS, **changed})

    check("steps must be .3,., or a sequence of tensors of ids; got shape .2,.", steps=[1, 2])
    check("got shape .2, 3.", steps=[[0, 1, 2], [0, 1, 2]])
    check("got shape .2, 3.", steps=torch.tensor([[1, 1, 1], [0, 1, 0]]))
    check("the graph has 3 nodes, but there are 1 names", names=["a"])
    check("the graph has 3 nodes, but there are 4 places", places=torch.zeros(4, 2))
    check("1 to 512 nodes, but the graph has 513", graph=Window(1).layout([513]))
    bipartite = dgl.heterograph({("source", "attends", "target"): ([0], [0])})
    check("edges go from 'source' to 'target' nodes", graph=bipartite)


@pytest.mark.parametrize(("steps", "frames"), [(STEPS, 4), ([0, 0, 0], 1), ([], 1)])
def test_animate_frontier_ends_with_a_frame_without_active_nodes(
    steps: list[int], frames: int, tmp_path: Path
) -> None:
    figure = draw_frontier(Causal().graph([3]), steps)
    assert (figure.axes[0].get_title() == "no node is active") == (frames == 1)
    path = tmp_path / "frontier.gif"
    animate_frontier(Causal().graph([3]), steps).save(path, writer="pillow")
    with Image.open(path) as picture:
        assert getattr(picture, "n_frames", 1) == frames
