from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from graphut.experiments.bench import implementations
from graphut.experiments.bench.implementations import (
    Implementation,
    PreparedRun,
    largest_error,
    reference,
)
from graphut.topology import Topology
from tests.experiments.bench.cases import TOPOLOGIES, problem
from tests.helpers import assert_same


def add(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return query + 2 * key + 3 * value


class Doubled:
    """A form in which every number is twice as large."""

    def pad(self, rows: Tensor) -> Tensor:
        return 2 * rows

    def unpad(self, table: Tensor) -> Tensor:
        return table / 2


def test_prepared_run_returns_output_and_gradients() -> None:
    case = problem()
    out, *gradients = PreparedRun(case, Implementation(add))()
    assert out.equal(add(*case.inputs))
    assert torch.equal(torch.stack(gradients), torch.stack([case.upstream * x for x in (1, 2, 3)]))


def test_prepared_run_forward_only() -> None:
    (out,) = PreparedRun(problem(forward_only=True), Implementation(add))()
    assert not out.requires_grad


def test_prepared_run_packed_unpads_results() -> None:
    case = problem()
    out, to_query, to_key, _ = PreparedRun(case, Implementation(add, Doubled(), Doubled())).packed()
    assert out.equal(add(*case.inputs))
    assert to_query.equal(case.upstream) and to_key.equal(2 * case.upstream)


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
def test_reference_agrees_with_both_backends(
    topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = problem(topology=topology, fraction=0.5, biased=True)
    by_dense = reference(case)
    monkeypatch.setattr(implementations, "_SCORES", 0)
    assert_same(reference(case), by_dense)
    assert len(by_dense) == 5


def test_reference_leaves_inputs_as_they_are() -> None:
    case = problem()
    reference(case)
    assert not any(x.requires_grad for x in case.inputs)


def test_reference_is_in_float64() -> None:
    (out,) = reference(problem(dtype=torch.bfloat16, forward_only=True))
    assert out.dtype == torch.float64


def test_largest_error_is_infinite_for_nan() -> None:
    one = torch.ones(4)
    assert largest_error([one, 1.1 * one], [one, one]) == pytest.approx(0.1)
    assert largest_error([one, one * math.nan], [one, one]) == math.inf


def test_largest_error_of_a_gradient_that_is_zero_is_that_of_all_gradients() -> None:
    one, nothing = torch.ones(4), torch.zeros(4)
    assert largest_error([one, nothing + 1e-7, one], [one, nothing, one]) == pytest.approx(1e-7)


def test_largest_error_refuses_another_shape() -> None:
    with pytest.raises(ValueError, match=r"has shape \(2,\), not \(3,\)"):
        largest_error([torch.ones(2)], [torch.ones(3)])
