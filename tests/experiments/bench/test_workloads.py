from __future__ import annotations

from typing import Any

import pytest
import torch

from graphut.experiments.bench.workloads import ModelProblem, Sizes
from graphut.topology import Causal, Star
from tests.experiments.bench.cases import problem
from tests.topology.brute import Comb


def test_attention_problem_flops() -> None:
    whole = problem(sizes=Sizes(1, 4, 4))
    assert whole.edges == 10
    assert whole.flops == 14 * 10 * 8
    assert problem(sizes=Sizes(1, 4, 4), forward_only=True).flops == 4 * 10 * 8


def test_attention_problem_frontier_is_a_sorted_part_of_the_nodes() -> None:
    part = problem(sizes=Sizes(1, 20, 20), fraction=0.3)
    assert part.frontier is not None
    assert part.rows == 6 and part.inputs[0].shape == (6, 2, 4)
    assert part.frontier.equal(part.frontier.unique())
    assert part.edges == int((part.frontier + 1).sum())  # causal


def test_attention_problem_inputs_are_always_the_same() -> None:
    first, second = problem(biased=True), problem(biased=True)
    assert all(map(torch.equal, first.inputs, second.inputs))
    assert first.inputs[3].shape == (first.layout.num_edges, 2)


def test_attention_problem_kind() -> None:
    assert problem().kind == "interval cpu float64 plain"
    assert problem(topology=Comb(2), biased=True).kind == "csr cpu float64 bias"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3}, "8 features do not divide into 3 heads"),
        ({"heads": 0}, "into 0 heads"),
        ({"fraction": 0.0}, "got 0.0"),
        ({"fraction": 1.5}, "got 1.5"),
    ],
)
def test_attention_problem_refuses_impossible_values(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        problem(**changes)


def test_sizes_lengths_are_within_bounds_and_always_the_same() -> None:
    lengths = Sizes(200, 3, 5).lengths()
    assert sorted(set(lengths.tolist())) == [3, 4, 5]
    assert lengths.equal(Sizes(200, 3, 5).lengths())


@pytest.mark.parametrize("text", ["", "8", "8x", "x9", "8y3", "8x3-", "8x3-4-5", "-1x3", "8x-3"])
def test_sizes_parse_quotes_what_is_no_shape(text: str) -> None:
    with pytest.raises(ValueError, match="such as") as raised:
        Sizes.parse(text)
    assert repr(text) in str(raised.value) or "range" in str(raised.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [((0, 1, 2), "a sentence at least, got 0"), ((1, 0, 2), "got 0-2"), ((1, 3, 2), "got 3-2")],
)
def test_sizes_refuse_impossible_values(values: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sizes(*values)


def test_model_problem_refuses_nodes_that_are_no_tokens() -> None:
    with pytest.raises(ValueError, match=r"star has nodes that are not tokens.*another topology"):
        ModelProblem(topology=Star(), sizes=Sizes(2, 3, 5))


@pytest.mark.parametrize("dim", [0, -8, 10])
def test_model_problem_refuses_features_that_do_not_divide(dim: int) -> None:
    with pytest.raises(ValueError, match=f"{dim} features do not divide into 8 heads"):
        ModelProblem(topology=Causal(), sizes=Sizes(2, 3, 5), dim=dim)
