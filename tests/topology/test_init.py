import pytest
import torch

from graphut.attention import EdgeLayout, as_layout
from graphut.topology import parse
from graphut.topology.registry import HOMES
from tests.topology.brute import brute_mask
from tests.topology.catalogue import ALL, CASES

HUGE = 10**12


def edges_of(layout: EdgeLayout) -> torch.Tensor:
    row, source, _ = layout.in_edges()
    return torch.stack([row, source])


def test_catalogue_names_every_topology() -> None:
    specs = "|".join([*ALL, *(str(parse(spec)) for spec in ALL)])
    assert HOMES and [name for name in HOMES if name not in specs] == []


@pytest.mark.parametrize(("spec", "n"), CASES)
def test_mask_num_edges_and_num_nodes_equal_the_definition(spec: str, n: int) -> None:
    topology = parse(spec)
    mask = brute_mask(topology, n, n)
    assert torch.equal(topology.mask(n), mask)
    assert topology.num_edges(n) == mask.sum()
    assert topology.num_nodes(n) == len(mask)


@pytest.mark.parametrize("spec", ALL)
def test_graph_has_the_edges_and_nodes_of_the_layout(spec: str) -> None:
    topology, lengths = parse(spec), [5, 1, 8]
    graph, layout = topology.graph(lengths), topology.layout(lengths)
    assert graph.batch_num_nodes().tolist() == [topology.num_nodes(n) for n in lengths]
    assert graph.batch_num_edges().tolist() == [topology.num_edges(n) for n in lengths]
    src, dst = graph.edges(order="eid")
    assert torch.equal(torch.stack([dst, src]), edges_of(layout))
    assert torch.equal(edges_of(as_layout(graph)), edges_of(layout))


@pytest.mark.parametrize("spec", ALL)
def test_stable_masks_are_corners_of_longer_ones(spec: str) -> None:
    topology = parse(spec)
    corners = [
        topology.num_nodes(n) == n and torch.equal(topology.mask(n), topology.mask(n + 1)[:n, :n])
        for n in range(1, 20)
    ]
    assert topology.stable is all(corners)


@pytest.mark.parametrize("spec", ALL)
def test_causal_is_causal_and_stable_where_it_says_so(spec: str) -> None:
    half = parse(spec).causal()
    assert half.is_causal() and half.causal().stable is half.stable
    if half.stable:
        for n in range(1, 20):
            assert torch.equal(half.mask(n), half.mask(n + 1)[:n, :n])


def test_is_causal_of_every_topology() -> None:
    causal = {spec for spec in ALL if parse(spec).is_causal()}
    halves = {"(bigbird:1,1,3@5)&causal", "binary_partition:2&causal"}
    assert causal == {"causal", "strided:4"} | halves


@pytest.mark.parametrize(
    ("spec", "other", "n"),
    [
        (f"window:{HUGE}", "complete", 5),
        (f"dilated:{HUGE},{HUGE}", "window:0", 5),
        ("dilated:3,1", "window:3", 9),
        ("strided:6", "causal", 7),
        (f"axial:{HUGE}", "complete", 7),
        ("axial:1", "complete", 7),
        (f"patch:3,{HUGE}", "complete", 7),
        (f"patch:{HUGE},2", "window:2", 7),
        (f"global:1,{HUGE}", "global:1", 3),
        (f"random:{HUGE}|window:0", "complete", 5),
        ("expander:4|window:0", "complete", 2),
        ("expander:4", "complete", 1),
        ("star", "complete|star", 2),
    ],
)
def test_topologies_at_their_limits_equal_others(spec: str, other: str, n: int) -> None:
    assert torch.equal(parse(spec).mask(n), parse(other).mask(n))


@pytest.mark.parametrize(
    "spec", ["bigbird:3,2,4@1", "(bigbird:3,2,4@1)&causal", "causal&(bigbird:3,2,4@1)|window:4"]
)
def test_layout_of_a_long_sentence_has_only_its_edges(spec: str) -> None:
    # As masks these would take 10 GB, and a list of the edges of `causal` 40 GB.
    assert parse(spec).layout([10**5]).num_edges < 2 * 10**6
