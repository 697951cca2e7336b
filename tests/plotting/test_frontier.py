from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from PIL import Image

from graphut._dgl import dgl
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


def edges_of(axes: Axes) -> set[tuple[int, int]]:
    ends = (path.vertices[[0, -1], 0] for path in axes.collections[0].get_paths())
    return {(round(source), round(reader)) for source, reader in ends}


def test_draw_frontier_colours_active_nodes_and_the_edges_that_they_read() -> None:
    figure = draw_frontier(Causal().graph([3]), STEPS, names=["a", "<eos>", "c"])
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
    message = "steps has node 3, but the graph has 3 nodes"
    refuses(message, draw_frontier, Causal().graph([3]), [torch.tensor([3])])


def test_draw_frontier_puts_the_nodes_of_a_graph_at_their_places() -> None:
    graph = dgl.graph(([0, 1, 2], [1, 2, 0]))
    places = torch.tensor([[0.0, 0.0], [3.0, 1.0], [1.0, 4.0]])
    for each in (places.numpy(), places):
        figure = draw_frontier(graph, torch.tensor(STEPS), places=each)
        for axes in figure.axes:
            np.testing.assert_array_equal(axes.collections[-1].get_offsets(), places)
    every, read = figure.axes[2].collections[:2]
    ends = [path.vertices.tolist() for path in read.get_paths()]
    assert ends == [[[3.0, 1.0], [1.0, 4.0]]] and len(every.get_paths()) == 3


def test_draw_frontier_of_many_steps_shows_some_and_the_last() -> None:
    figure = draw_frontier(Window(1).graph([40]), torch.arange(1, 41))
    steps = [int(axes.get_title().split(":")[0].removeprefix("step ")) for axes in figure.axes]
    assert len(steps) == 12 and steps[0] == 1 and steps[-1] == 40
    assert steps == sorted(set(steps))


@pytest.mark.parametrize(("nodes", "placed"), [(1, True), (7, False), (60, False), (60, True)])
def test_draw_frontier_cuts_nothing_off(nodes: int, placed: bool) -> None:
    graph = Complete().graph([nodes]) if nodes < 60 else Window(2).graph([nodes])
    places = torch.rand(nodes, 2) if placed else None
    steps, names = 1 + torch.arange(nodes) % 5, [f"n{i}" for i in range(nodes)]
    assert_nothing_is_cut_off(draw_frontier(graph, steps, names=names, places=places))


def test_draw_frontier_refuses_what_does_not_fit() -> None:
    def check(words: str, **changed: Any) -> None:
        refuses(words, draw_frontier, **{"graph": Causal().layout([3]), "steps": STEPS, **changed})

    check("the graph has 3 nodes, but there are 2 steps", steps=[1, 2])
    check("the graph has 3 nodes, but there are 1 names", names=["a"])
    check("the graph has 3 nodes, but there are 4 places", places=torch.zeros(4, 2))
    check("1 to 512 nodes, but the graph has 513", graph=Window(1).layout([513]))
    check("edges go from 'source' to 'target' nodes", graph=Complete().graph([3], [3]))
    block = dgl.to_block(dgl.graph(([3, 3, 3], [0, 1, 2])))
    check("a graph whose sources are its destinations", graph=block, places=torch.zeros(3, 2))


@pytest.mark.parametrize(("steps", "frames"), [(STEPS, 4), ([0, 0, 0], 1), ([], 1)])
@pytest.mark.parametrize("places", [None, torch.rand(3, 2)], ids=["line", "places"])
def test_animate_frontier_ends_with_a_frame_without_active_nodes(
    steps: list[int], frames: int, places: Any, tmp_path: Path
) -> None:
    figure = draw_frontier(Causal().graph([3]), steps, places=places)
    assert (figure.axes[0].get_title() == "no node is active") == (frames == 1)
    path = tmp_path / "frontier.gif"
    animate_frontier(Causal().graph([3]), steps, places=places).save(path, writer="pillow")
    with Image.open(path) as picture:
        assert getattr(picture, "n_frames", 1) == frames
