from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from graphut.attention import CSRLayout, IntervalLayout, as_layout, layout_from_edges
from graphut.topology import BinaryPartition, Causal, Complete, Topology, Window, parse
from tests.topology import brute
from tests.topology.brute import Back, Comb, brute_batch_mask, brute_mask


def edges_of(mask: torch.Tensor) -> tuple[list[int], list[int]]:
    row, source = mask.nonzero(as_tuple=True)
    return row.tolist(), source.tolist()


@given(brute.topologies, brute.lengths, brute.lengths)
def test_mask_equals_the_definition_pair_by_pair(topology: Topology, n: int, m: int) -> None:
    assert torch.equal(topology.mask(n, m), brute_mask(topology, n, m))
    assert torch.equal(topology.mask(n), brute_mask(topology, n, n))


@given(brute.topologies, brute.pairs)
def test_layout_of_a_batch_is_the_disjoint_union(
    topology: Topology, pair: tuple[list[int], list[int]]
) -> None:
    dst, src = pair
    layout = topology.layout(dst, src)
    mask = brute_batch_mask(topology, dst, src)
    row, source, edge = layout.in_edges()
    assert (row.tolist(), source.tolist()) == edges_of(mask)
    assert edge.tolist() == list(range(int(mask.sum())))
    assert layout.in_degrees.tolist() == mask.sum(1).tolist()
    assert (layout.num_dst, layout.num_src) == mask.shape
    assert (layout.dst_lengths.tolist(), layout.src_lengths.tolist()) == (dst, src)


@given(brute.topologies, brute.batches)
def test_layout_is_of_intervals_wherever_they_fit(topology: Topology, batch: list[int]) -> None:
    mask = brute_batch_mask(topology, batch, batch).int()
    runs = (mask.diff(dim=1, prepend=torch.zeros(len(mask), 1, dtype=torch.int32)) == 1).sum(1)
    expected = IntervalLayout if (runs <= 1).all() else CSRLayout
    assert type(topology.layout(batch)) is expected


@given(brute.topologies, brute.batches)
def test_graph_has_the_edges_of_masks_and_keeps_the_layout(
    topology: Topology, batch: list[int]
) -> None:
    graph = topology.graph(batch)
    masks = [brute_mask(topology, n, n) for n in batch]
    src, dst = graph.edges(order="eid")
    assert (dst.tolist(), src.tolist()) == edges_of(torch.block_diag(*masks))
    assert graph.is_homogeneous
    assert graph.batch_num_nodes().tolist() == batch
    assert graph.batch_num_edges().tolist() == [int(mask.sum()) for mask in masks]
    kept = as_layout(graph)
    read = layout_from_edges(src, dst, num_src=graph.num_nodes(), num_dst=graph.num_nodes())
    assert type(kept) is type(read)
    assert [t.tolist() for t in kept.in_edges()] == [t.tolist() for t in read.in_edges()]


def test_graph_of_two_sides_is_bipartite() -> None:
    graph = Window(1).graph([2, 4], [3, 1])
    assert graph.canonical_etypes == [("source", "attends", "target")]
    assert graph.batch_num_nodes("source").tolist() == [3, 1]
    assert graph.batch_num_nodes("target").tolist() == [2, 4]
    assert graph.batch_num_edges().tolist() == [5, 2]
    assert as_layout(graph).src_lengths.tolist() == [3, 1]


@given(brute.topologies)
def test_stable_masks_are_corners_of_longer_ones(topology: Topology) -> None:
    if topology.stable:
        for n in range(1, 9):
            assert torch.equal(topology.mask(n), topology.mask(n + 1)[:n, :n])


def test_stable_is_true_where_it_holds_and_false_by_default() -> None:
    assert Complete().stable and Causal().stable and Window(3).stable
    assert (Window(3) & Causal() | Back(1)).stable
    assert not Comb().stable and not (Causal() & Comb()).stable and not (Comb() | Causal()).stable


@given(brute.topologies)
def test_is_causal_means_no_mask_has_an_upper_triangle(topology: Topology) -> None:
    upper = any(brute_mask(topology, n, n).triu(1).any() for n in range(1, 9))
    assert topology.is_causal(8) is not upper
    assert any(topology.sees_future(n) for n in range(1, 9)) is upper


@pytest.mark.parametrize(
    ("lengths", "error", "words"),
    [
        ([], ValueError, "empty"),
        (torch.zeros(0), ValueError, "empty"),
        ([3, 0], ValueError, r"lengths\[1\] is 0"),
        ([-2, 3], ValueError, r"lengths\[0\] is -2"),
        (5, TypeError, "got 5"),
        ([2.5], TypeError, "float"),
        ([True], TypeError, "bool"),
        ([[1, 2]], TypeError, r"\(1, 2\)"),
    ],
)
def test_layout_and_graph_name_bad_lengths(
    lengths: Any, error: type[Exception], words: str
) -> None:
    for build in (Causal().layout, Causal().graph):
        with pytest.raises(error, match=words):
            build(lengths)
    with pytest.raises(error, match="src_"):
        Complete().layout([1], lengths)


def test_layout_refuses_different_numbers_of_sentences() -> None:
    with pytest.raises(ValueError, match="2 lengths but 1 src_lengths"):
        Complete().layout([1, 2], [3])


def test_layout_takes_lengths_of_any_integer_type() -> None:
    assert Causal().layout(torch.tensor([2, 3], dtype=torch.int32)).num_edges == 9


def test_topology_subclass_needs_a_method() -> None:
    with pytest.raises(TypeError, match=r"Nothing must define interval\(\) or in_edges\(\)"):

        class Nothing(Topology):
            name = "test_nothing"


def test_topology_without_an_interval_needs_in_edges() -> None:
    class Ragged(Topology):
        name = "test_ragged"

        def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> None:
            return None

    with pytest.raises(TypeError, match=r"test_ragged: interval\(\) returned None"):
        Ragged().mask(3)


def test_topology_subclass_of_a_built_in_one_has_its_own_edges() -> None:
    @dataclass(frozen=True)
    class Past(Window):
        name = "test_past"

        def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Any:
            return dst - self.radius, dst + 1

    @dataclass(frozen=True)
    class Others(Window):
        name = "test_others"

        def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Any:
            return torch.arange(len(dst)), dst - self.radius

    for topology, edges in ((Past(2), 15), (Others(2), 4)):
        assert topology.num_edges(6) == int(topology.mask(6).sum()) == edges
    assert Window(2).num_edges(6) == int(Window(2).mask(6).sum())


@pytest.mark.parametrize("n", [-3, 0, 2.5])
def test_topology_counts_for_lengths_alone(n: Any) -> None:
    for count in (Complete().num_edges, BinaryPartition(1).num_nodes):
        with pytest.raises((TypeError, ValueError), match="length"):
            count(n)


def test_is_causal_looks_beyond_negative_numbers() -> None:
    @dataclass(frozen=True)
    class Shift(Topology):
        name = "test_moved"
        by: int

        def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Any:
            return torch.arange(len(dst)), dst - self.by

    assert Shift(70).is_causal() and not Shift(-70).is_causal()


def test_topology_is_frozen() -> None:
    assert Window(3) == Window(3) and Window(3) != Window(4) and Causal() != Complete()
    assert hash(Window(3) | Causal()) == hash(Window(3) | Causal())
    with pytest.raises(FrozenInstanceError):
        Window(3).radius = 4  # type: ignore[misc]


def test_str_is_the_spec() -> None:
    assert str(Window(8)) == Window(8).spec() == "window:8"
    assert repr(Window(8)) == "Window(radius=8)"


def test_topology_refuses_fields_that_are_no_integers() -> None:
    for value in (1.5, "2", True):
        with pytest.raises(TypeError, match="window: radius must be an integer"):
            Window(value)  # type: ignore[arg-type]


def test_topology_needs_parameters_as_fields() -> None:
    class Shift(Topology):
        name = "test_shift"

        def __init__(self, k: int) -> None:
            self.k = k

        def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
            return torch.arange(len(dst)), dst + self.k

    with pytest.raises(TypeError, match=r"Shift .* decorate it with @dataclass\(frozen=True\)"):
        Shift(3)


@pytest.mark.parametrize("name", [None, 3, "", "Upper", "with-dash", "2d"])
def test_topology_needs_its_own_name(name: Any) -> None:
    body = {} if name is None else {"name": name}
    with pytest.raises(TypeError, match="needs a name"):
        type("Mine", (Causal,), body)


def test_name_is_taken_once_but_may_be_defined_again() -> None:
    with pytest.raises(
        TypeError, match=r"'causal', which is the name of graphut\.topology\.window\.Causal"
    ):
        type("Mine", (Causal,), {"name": "causal"})

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


@dataclass(frozen=True)
class Jump(Topology, minimum={"steps": 0, "times": 3}):
    name = "test_jump"
    steps: int
    times: int

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        return torch.arange(len(dst)), dst - self.steps * self.times


def test_topology_names_a_field_below_its_minimum() -> None:
    assert Jump(0, 3).spec() == "test_jump:0,3"
    with pytest.raises(ValueError, match="test_jump: times must be at least 3, got 2"):
        Jump(0, 2)
    with pytest.raises(ValueError, match="test_jump: steps must not be negative, got -1"):
        Jump(-1, 3)


def test_topology_names_a_field_whose_sums_would_not_fit_in_64_bits() -> None:
    with pytest.raises(ValueError, match=r"radius must be below 10\^18, got 9223372036854775807"):
        Window(2**63 - 1)
    assert Window(10**18 - 1).mask(3).all() and parse(Window(10**18 - 1).spec())


@dataclass(frozen=True)
class Narrow(Topology):
    name = "test_narrow"

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        return torch.arange(len(dst), dtype=torch.int32), dst.int()


def test_topology_takes_edges_in_32_bits() -> None:
    assert torch.equal((Narrow() | Window(0)).mask(4), torch.eye(4, dtype=torch.bool))
    layout = Narrow().layout([50_000])
    assert torch.equal(layout.sources(), torch.arange(50_000))


def test_num_edges_of_numpy_integers_are_exact() -> None:
    assert Complete().num_edges(np.int64(10**10)) == 10**20
    assert Complete().num_edges(torch.tensor(5 * 10**9)) == 25 * 10**18  # type: ignore[arg-type]
