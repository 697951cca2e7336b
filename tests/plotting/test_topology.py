import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from graphut.plotting import draw_topology
from graphut.topology import Complete, parse
from tests.plotting.pictures import assert_nothing_is_cut_off


def arcs_of(figure: Figure) -> list[tuple[float, float, bool]]:
    """`(source, destination, is it above the line)` of every arc."""
    collections = [c for c in figure.axes[1].collections if isinstance(c, LineCollection)]
    paths = [np.asarray(path.vertices) for c in collections for path in c.get_paths()]
    return [(round(p[0, 0]), round(p[-1, 0]), bool(p[16, 1] > 0)) for p in paths]


@pytest.mark.parametrize("spec", ["window:1|global:0", "star", "binary_partition:1", "edges"])
def test_draw_topology_draws_the_mask_and_every_edge(spec: str) -> None:
    topology = parse(spec)
    figure = draw_topology(spec, 6)
    mask = topology.mask(6).numpy()
    (image,) = figure.axes[0].images
    assert np.array_equal(np.asarray(image.get_array()) > 0, mask)
    edges = {(j, i, i > j) for i, j in np.argwhere(mask).tolist() if i != j}
    assert set(arcs_of(figure)) == edges and len(arcs_of(figure)) == len(edges)


LONG = "|".join(["dilated:100,100"] * 20)


@pytest.mark.parametrize(
    ("spec", "n"), [("causal", 1), ("star", 2), ("binary_partition:2", 40), (LONG, 300)]
)
def test_draw_topology_cuts_nothing_off(spec: str, n: int) -> None:
    assert_nothing_is_cut_off(draw_topology(parse(spec), n))


def test_draw_topology_refuses_too_many_nodes() -> None:
    with pytest.raises(ValueError, match="a picture has at most 512 nodes, got 513"):
        draw_topology(Complete(), 513)
