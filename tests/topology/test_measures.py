from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphut.topology import Topology, Window, statistics
from tests.helpers import refuses
from tests.topology import brute


def breadth_first(topology: Topology, n: int) -> dict[tuple[int, int], int]:
    """The distance from token `j` to token `i`, where there is a path."""
    mask = topology.mask(n)
    distances = {}
    for i in range(n):
        seen, edge, steps = {i}, {i}, 0
        while edge:
            distances.update({(i, j): steps for j in edge if j < n})
            edge = {j for k in edge for j in mask[k].nonzero()[:, 0].tolist()} - seen
            seen |= edge
            steps += 1
    return distances


@given(brute.topologies | brute.with_extra_nodes, st.integers(1, 12))
def test_statistics_equal_the_mask_and_a_breadth_first_search(topology: Topology, n: int) -> None:
    distances = breadth_first(topology, n)
    found = statistics(topology, n)
    assert found.diameter == max(distances.values())
    missing = [(i, j) for i in range(n) for j in range(n) if (i, j) not in distances]
    assert found.unreachable == (missing[0] if missing else None)
    degrees = topology.mask(n).sum(1)
    assert (found.tokens, found.nodes, found.edges) == (n, len(degrees), int(degrees.sum()))
    assert (found.min_in_degree, found.max_in_degree) == (int(degrees.min()), int(degrees.max()))


@pytest.mark.parametrize("n", [0, 513])
def test_statistics_refuse_another_number_of_tokens(n: int) -> None:
    refuses(r"n must be between 1 and 512 tokens, got ", statistics, Window(2), n)


def test_statistics_refuse_positions_in_place_of_rows() -> None:
    @dataclass(frozen=True)
    class Previous(Topology, named=False):
        name = "previous_of_tests"

        def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
            return dst, dst - 1  # a token's position, which is its row in the first sentence only

    refuses("a row of in_edges is an index into dst, not a position", statistics, Previous(), 9)
