from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given

from graphut._dgl import dgl
from graphut.attention import as_layout
from graphut.topology import Causal, Complete
from graphut.topology.batch import as_lengths, graph_from_layouts, positions, row_sums, starts
from tests.helpers import assert_same, gradients, normal
from tests.topology import brute


@given(brute.batches)
def test_starts_and_positions_number_nodes_within_sentences(batch: list[int]) -> None:
    lengths = as_lengths(batch)
    assert lengths.dtype == torch.int64
    assert starts(lengths).tolist() == [sum(batch[:i]) for i in range(len(batch))]
    assert positions(lengths).tolist() == [i for n in batch for i in range(n)]


def test_row_sums_adds_up_each_row() -> None:
    row, values = torch.tensor([2, 0, 2, 4, 2, 0]), normal(6, 3, 2)
    sums = row_sums(values, row, 5)
    expected = torch.stack([values[row == i].sum(0) for i in range(5)])
    assert_same([sums, *gradients([sums], [values])], [expected, *gradients([expected], [values])])


@pytest.mark.gpu
def test_row_sums_gives_the_same_bits_twice_on_a_gpu() -> None:
    row = torch.randint(100, (100_000,), generator=torch.Generator().manual_seed(0))
    values = normal(100_000, 4, dtype=torch.float32).detach()
    here = row_sums(values, row, 100)
    first, *others = (row_sums(values.cuda(), row.cuda(), 100) for _ in range(5))
    assert all(torch.equal(first, other) for other in others)
    assert_same([first.cpu()], [here], 1e-5)


SEES, READS = ("token", "sees", "token"), ("fact", "reads", "token")


def test_graph_from_layouts_shares_nodes_and_keeps_layouts() -> None:
    layouts = {SEES: Causal().layout([2, 3]), READS: Complete().layout([2, 3], [4, 1])}
    graph = graph_from_layouts(layouts)
    assert graph.idtype == torch.int64
    assert graph.num_nodes("token") == 5 and graph.num_nodes("fact") == 5
    assert graph.batch_num_nodes("fact").tolist() == [4, 1]
    assert graph.batch_num_edges(SEES).tolist() == [3, 6]
    assert graph.batch_num_edges(READS).tolist() == [8, 3]
    assert as_layout(graph, SEES) is layouts[SEES] and as_layout(graph, "reads") is layouts[READS]


def test_graph_from_layouts_unbatches_into_sentences() -> None:
    graph = graph_from_layouts({SEES: Causal().layout([2, 3])})
    first, second = dgl.unbatch(graph)
    assert [t.tolist() for t in second.edges()] == [t.tolist() for t in Causal().graph([3]).edges()]
    assert first.num_nodes() == 2


def test_row_sums_of_16_bits_are_those_of_float32() -> None:
    ones, row = torch.ones(1000, dtype=torch.bfloat16), torch.zeros(1000, dtype=torch.int64)
    assert row_sums(ones, row, 1).tolist() == [1000.0]


def test_graph_from_layouts_hands_out_lengths_of_its_own() -> None:
    graph = Complete().graph([3, 2])
    graph.batch_num_nodes()[0] = 1
    assert as_layout(graph).dst_lengths.tolist() == [3, 2]


@pytest.mark.parametrize("lengths", [None, map(len, ["ab"]), {2, 3}, [10**19], ["a"]], ids=repr)
def test_as_lengths_refuses_what_is_no_sequence_of_integers(lengths: Any) -> None:
    with pytest.raises(TypeError, match="lengths must be one integer a sentence"):
        as_lengths(lengths)
