from __future__ import annotations

import math

import pytest
import torch

from graphut.experiments.bench import correctness
from graphut.experiments.bench.correctness import largest_error, reference
from graphut.topology import Topology
from tests.experiments.bench.cases import TOPOLOGIES, problem
from tests.helpers import assert_same


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
def test_reference_agrees_with_both_backends(
    topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = problem(topology=topology, fraction=0.5, biased=True)
    by_dense = reference(case)
    monkeypatch.setattr(correctness, "_SCORES", 0)
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


def test_largest_error_refuses_another_shape() -> None:
    with pytest.raises(ValueError, match=r"has shape \(2,\), not \(3,\)"):
        largest_error([torch.ones(2)], [torch.ones(3)])
