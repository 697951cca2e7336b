from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor

from graphut import topology as tp
from graphut.attention.layout import CSRLayout, EdgeLayout, IntervalLayout
from graphut.attention.ragged import positions, starts
from graphut.topology import Causal, Complete, Topology, Window, parse
from graphut.topology.cross import cross_layout
from tests.helpers import refuses
from tests.topology import brute
from tests.topology.brute import Back, Comb, brute_batch_mask


def layout_of_pairs(topology: Topology, dst: Tensor, src: Tensor) -> EdgeLayout:
    """The edges of targets with `dst` tokens from sources with `src` tokens."""
    sentence = torch.repeat_interleave(dst)
    rows = positions(dst), dst[sentence], src[sentence], starts(src)[sentence]
    num_src = int(src.sum())
    return topology.layout_of_rows(*rows, num_src=num_src, dst_lengths=dst, src_lengths=src)


def test_topology_refuses_an_init_without_fields() -> None:
    def define() -> None:
        class Far(Topology):
            name = "far_of_tests"

            def __init__(self, reach: int) -> None:
                self.reach = reach  # in no spec, and in no comparison

            def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
                return torch.arange(len(dst)), dst - self.reach

    refuses(r"Far: write @dataclass\(frozen=True\), and fields, not __init__", define)


@given(brute.topologies, brute.pairs)
def test_layout_of_a_batch_is_the_disjoint_union_of_the_definitions(
    topology: Topology, pair: tuple[list[int], list[int]]
) -> None:
    dst, src = pair
    mask = brute_batch_mask(topology, dst, src)
    layout = layout_of_pairs(topology, torch.tensor(dst), torch.tensor(src))
    row, source, edge = layout.in_edges()
    assert torch.equal(torch.stack([row, source]), torch.stack(mask.nonzero(as_tuple=True)))
    assert edge.tolist() == list(range(int(mask.sum())))
    assert layout.in_degrees.tolist() == mask.sum(1).tolist()
    assert (layout.num_dst, layout.num_src) == mask.shape
    assert (layout.dst_lengths.tolist(), layout.src_lengths.tolist()) == (dst, src)


@given(brute.with_extra_nodes, brute.batches)
def test_layout_with_extra_nodes_is_the_disjoint_union_of_the_definitions(
    topology: Topology, lengths: list[int]
) -> None:
    row, source, _ = topology.layout(lengths).in_edges()
    mask = brute_batch_mask(topology, lengths, lengths)
    assert torch.equal(torch.stack([row, source]), torch.stack(mask.nonzero(as_tuple=True)))


@given(brute.topologies, brute.batches)
def test_layout_has_intervals_wherever_they_fit(topology: Topology, batch: list[int]) -> None:
    mask = brute_batch_mask(topology, batch, batch).int()
    runs = (mask.diff(dim=1, prepend=torch.zeros(len(mask), 1, dtype=torch.int32)) == 1).sum(1)
    expected = IntervalLayout if (runs <= 1).all() else CSRLayout
    assert type(topology.layout(batch)) is expected


def test_name_is_taken_once_but_may_be_defined_again() -> None:
    words = "Mine.name is 'causal', a topology of graphut: choose another"
    refuses(words, type, "Mine", (Causal,), {"name": "causal"})

    def define(default: int) -> type[Topology]:
        @dataclass(frozen=True)
        class Again(Back):
            name = "test_again"
            steps: int = default

        return Again

    first = define(1)
    assert parse("test_again") == first(1)
    second = define(2)
    assert parse("test_again") == second(2) != first(2)


def test_topology_is_stable_or_causal_where_it_is_at_all_lengths() -> None:
    assert (Window(3) & Causal() | Back(1)).stable
    assert not Comb().stable and not (Causal() & Comb()).stable and not (Comb() | Causal()).stable
    assert Back(70).is_causal() and not Back(-70).is_causal()

    class Ahead(tp.Causal, named=False):
        def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
            return torch.zeros_like(dst), dst + 2

    assert tp.Causal().is_causal() and not Ahead().is_causal()


# Refused topologies and arguments.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda row, source: (row, source.float()),
            "source of in_edges must be a 1-D int64 tensor",
        ),
        (lambda row, source: (row, source[:4]), "of equal length, "),
        (lambda row, source: (row - 1, source), "index into the 3 .*are they exchanged"),
        (lambda row, source: (row.tolist(), source), "row of .* a tensor, got list; convert it"),
        (lambda row, source: None, "pair .row, source., got None"),
    ],
)
def test_topology_refuses_malformed_edges(change: Callable[..., Any], message: str) -> None:
    class Wrong(Topology):
        name = "test_wrong"

        def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Any:
            return change(*torch.cartesian_prod(dst, dst).T)

    refuses(f"test_wrong: .*{message}", Wrong().layout, [3])


LENGTHS = "must have one integer per sentence, such as"
MASK = torch.ones(3, 3)
CROSS = {"decoder": Causal(), "encoder": Complete()}


def test_topologies_refuse_what_does_not_fit() -> None:
    refuses("empty", Causal().layout, [])
    refuses(r"lengths\[1\] is 0", Causal().layout, [3, 0])
    for wrong in (5, [2.5], [True], [[1, 2]]):
        refuses(LENGTHS, Causal().layout, wrong)
    refuses(r"interval\(\) or in_edges\(\)", type, "Nothing", (Topology,), {"name": "n"})
    for wrong in (1.5, "2", True, (0, 1)):
        refuses("window: radius must be an integer", Window, wrong)
    refuses("global: tokens must be an integer, got", tp.Global, 0, 1.5)
    for body in ({}, *({"name": x} for x in (3, "", "Upper", "with-dash", "2d"))):
        refuses("needs a name", type, "Mine", (Causal,), body)
    refuses("needs at least one position, all of them at least 0", tp.Global)
    refuses("feat has 3 rows, .* 4 tokens", tp.with_extra_nodes, tp.Star(), MASK, [2, 2])
    refuses("'star' has extra nodes, but cross-attention", cross_layout, "star", [1], [1], **CROSS)
    refuses("token 0 of a target no sou", cross_layout, "test_back:1", [2], [3], **CROSS)
    for mask in (MASK.int(), MASK.bool()[0], [[1, 0]]):
        refuses(r"a bool tensor of shape \(n_dst, n_src", tp.from_mask, mask)
    refuses("combine two topologies, got", tp.Intersection, Causal(), "causal")
    refuses("2 sources but 1 destinations", tp.from_edges, [0, 1], [0])
    refuses("pairs of positions, all at least 0; got .0, -1", tp.Edges, 0, -1)
    refuses("pairs of positions, all at least 0; got .0, 0, 1", tp.Edges, 0, 0, 1)
    refuses(r"edges: ends must be an integer, got 0\.5", tp.from_edges, [0.5], [0])
    refuses(r"parents\[1\] is 5: .* of one of the 2 tokens, or -1", tp.from_parents, [1, 5])


def test_topologies_name_bad_values() -> None:
    refuses("window: radius must not be negative, got -1", parse, "window:-1")
    refuses("dilated: radius must not be negative, got -1", parse, "dilated:-1,2")
    refuses("dilated: dilation must be at least 1, got 0", parse, "dilated:1,0")
    refuses("axial: width must be at least 1, got 0", parse, "axial:0")
    refuses("patch: width must be at least 1, got 0", parse, "patch:0,1")
    refuses("patch: radius must not be negative, got -1", parse, "patch:3,-1")
    refuses("strided: stride must be at least 1, got 0", parse, "strided:0")
    refuses("binary_partition: spans must be at least 1, got 0", parse, "binary_partition:0")
    refuses("virtual: nodes must be at least 1, got 0", parse, "virtual:0")
    refuses("random: links must be at least 1, got 0", parse, "random:0")
    refuses("expander: degree must be at least 2, got 0", parse, "expander:0")
    refuses("expander: degree must be even, got 3", parse, "expander:3")
