from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from graphut.attention import CSRLayout, IntervalLayout, as_layout
from graphut.topology import BinaryPartition, Causal, Complete, Topology, Window, parse
from tests.topology import brute
from tests.topology.brute import Back, Comb, brute_batch_mask


@given(brute.topologies, brute.pairs)
def test_layout_of_a_batch_is_the_disjoint_union_of_the_definitions(
    topology: Topology, pair: tuple[list[int], list[int]]
) -> None:
    dst, src = pair
    mask = brute_batch_mask(topology, dst, src)
    layout = topology.layout(dst, src)
    row, source, edge = layout.in_edges()
    assert torch.equal(torch.stack([row, source]), torch.stack(mask.nonzero(as_tuple=True)))
    assert edge.tolist() == list(range(int(mask.sum())))
    assert layout.in_degrees.tolist() == mask.sum(1).tolist()
    assert (layout.num_dst, layout.num_src) == mask.shape
    assert (layout.dst_lengths.tolist(), layout.src_lengths.tolist()) == (dst, src)
    assert torch.equal(topology.mask(dst[0], src[0]), mask[: dst[0], : src[0]])


@given(brute.with_extra_nodes, brute.batches)
def test_layout_of_a_batch_with_extra_nodes_is_the_disjoint_union_of_the_definitions(
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


def test_graph_with_source_lengths_is_bipartite() -> None:
    graph = Window(1).graph([2, 4], [3, 1])
    assert graph.canonical_etypes == [("source", "attends", "target")]
    assert graph.batch_num_nodes("source").tolist() == [3, 1]
    assert graph.batch_num_nodes("target").tolist() == [2, 4]
    assert graph.batch_num_edges().tolist() == [5, 2]
    assert as_layout(graph).src_lengths.tolist() == [3, 1]


def test_stable_is_false_by_default() -> None:
    assert (Window(3) & Causal() | Back(1)).stable
    assert not Comb().stable and not (Causal() & Comb()).stable and not (Comb() | Causal()).stable


WRONG = [5, {2, 3}, [10**19], ["a"], [2.5], [True], [[1, 2]]]


@pytest.mark.parametrize(
    ("lengths", "error", "words"),
    [
        ([], ValueError, "empty"),
        (torch.zeros(0), ValueError, "empty"),
        ([3, 0], ValueError, r"lengths\[1\] is 0"),
        *((wrong, TypeError, "must have one integer per sentence, such as") for wrong in WRONG),
    ],
    ids=repr,
)
def test_layout_refuses_wrong_lengths(lengths: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Causal().layout(lengths)
    with pytest.raises(error, match="src_"):
        Complete().layout([1], lengths)


def test_layout_refuses_different_numbers_of_sentences_and_extra_nodes_in_a_cross_graph() -> None:
    with pytest.raises(ValueError, match="2 lengths but 1 src_lengths"):
        Complete().layout([1, 2], [3])
    with pytest.raises(ValueError, match="'binary_partition:2' has extra nodes"):
        BinaryPartition(2).layout([3], [4])


def test_layout_takes_lengths_and_edges_of_32_bits_and_integers_of_numpy() -> None:
    @dataclass(frozen=True)
    class Narrow(Topology):
        name = "test_narrow"

        def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
            return torch.arange(len(dst), dtype=torch.int32), dst.int()

    assert Causal().layout(torch.tensor([2, 3], dtype=torch.int32)).num_edges == 9
    assert torch.equal((Narrow() | Window(0)).mask(4), torch.eye(4, dtype=torch.bool))
    assert torch.equal(Narrow().layout([50_000]).sources(), torch.arange(50_000))  # 50000^2 > 2^31
    assert Window(np.int64(2)) == Window(2) and type(Window(np.int64(2)).radius) is int


def test_topology_without_edges_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Nothing must define interval\(\) or in_edges\(\)"):

        class Nothing(Topology):
            name = "test_nothing"

    class Ragged(Topology):
        name = "test_ragged"

        def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> None:
            return None

    with pytest.raises(TypeError, match=r"test_ragged: interval\(\) returned None"):
        Ragged().mask(3)


def test_topology_derived_from_a_built_in_one_has_its_own_edges() -> None:
    @dataclass(frozen=True)
    class Others(Window):
        name = "test_others"

        def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Any:
            return torch.arange(len(dst)), dst - self.radius

    assert torch.equal(Others(2).mask(6), Back(2).mask(6))
    assert Others(2).is_causal()


def test_is_causal_tries_lengths_beyond_negative_integers() -> None:
    assert Back(70).is_causal() and not Back(-70).is_causal()


@pytest.mark.parametrize("value", [1.5, "2", True, (0, 1)])
def test_topology_refuses_fields_that_are_not_integers(value: Any) -> None:
    with pytest.raises(TypeError, match="window: radius must be an integer"):
        Window(value)
    with pytest.raises(TypeError, match="global: tokens must be an integer, got"):
        parse("global:0").__class__(0, value)


def test_topology_needs_parameters_as_fields() -> None:
    class Shift(Topology):
        name = "test_shift"

        def __init__(self, k: int) -> None:
            self.k = k

        def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
            return torch.arange(len(dst)), dst + self.k

    with pytest.raises(TypeError, match=r"Shift .* decorate it with @dataclass\(frozen=True\)"):
        Shift(3)

    class Undecorated(Back):
        name = "test_undecorated"
        kinds: ClassVar[int] = 3

    assert Undecorated(3).steps == 3

    class Forgotten(Back):
        name = "test_forgotten"
        spread: int

    with pytest.raises(TypeError, match="Forgotten must store its parameters as dataclass fields"):
        Forgotten(3)


@pytest.mark.parametrize("name", [None, 3, "", "Upper", "with-dash", "2d"])
def test_topology_needs_its_own_name(name: Any) -> None:
    body = {} if name is None else {"name": name}
    with pytest.raises(TypeError, match="needs a name"):
        type("Mine", (Causal,), body)


def test_name_is_taken_once_but_may_be_defined_again() -> None:
    with pytest.raises(TypeError, match=r"'causal', which is .* graphut\.topology\.window\.Causal"):
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


def test_topology_refuses_a_field_whose_sums_would_not_fit_in_64_bits() -> None:
    with pytest.raises(ValueError, match=r"radius must be below 10\^18, got 9223372036854775807"):
        Window(2**63 - 1)
    assert Window(10**18 - 1).mask(3).all() and parse(Window(10**18 - 1).spec())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row, source: source, r"two int64 tensors, .*; got torch.int64 \(9,\)"),
        (lambda row, source: None, "got NoneType"),
        (
            lambda row, source: (row, source.float()),
            r"got torch.int64 \(9,\), torch.float32 \(9,\)",
        ),
        (lambda row, source: (row, source[:4]), r"got torch.int64 \(9,\), torch.int64 \(4,\)"),
        (lambda row, source: (row + 1, source), "in_edges returned row 3 of 3 rows of dst"),
    ],
)
def test_topology_refuses_malformed_edges(change: Callable[..., Any], message: str) -> None:
    class Wrong(Topology):
        name = "test_wrong"

        def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Any:
            pairs = torch.cartesian_prod(dst, dst)
            return change(pairs[:, 0], pairs[:, 1])

    with pytest.raises(ValueError, match=f"test_wrong: .*{message}"):
        Wrong().layout([3])
