import copy
import gc

import pytest
import torch
from torch import nn

from graphut.nn.finite_checks import FiniteChecks
from graphut.nn.gpu import async_checks
from graphut.nn.gpu.async_checks import AsyncFiniteChecks, AsyncHostCopy

NAN, INF = torch.nan, torch.inf


class Later(AsyncHostCopy):
    """A copy that arrives when the test sets `here`."""

    here = False

    def arrived(self) -> bool:
        return Later.here


@pytest.fixture(autouse=True)
def _later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_checks, "AsyncHostCopy", Later)
    monkeypatch.setattr(Later, "here", False)


def feat(*wrong: tuple[int, float]) -> torch.Tensor:
    rows = torch.zeros(4, 3)
    for node, value in wrong:
        rows[node, 1] = value
    return rows


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_finite_checks_features(value: float) -> None:
    with pytest.raises(ValueError, match=f"feature 1 of node 2 is {value}"):
        FiniteChecks().check_features(feat((2, value), (3, value)))
    Later.here = True
    late = AsyncFiniteChecks(nn.Identity())
    late.check_features(feat((2, value), (3, value)))
    with pytest.raises(ValueError, match="a feature of node 2 is not a finite number"):
        late.close()


def test_finite_checks_numbers_whose_sum_is_not_finite_pass() -> None:
    Later.here = True
    large = torch.full((2, 3), 3e38)
    late = AsyncFiniteChecks(nn.Identity())
    for each in (FiniteChecks(), late):
        each.check_features(large)
        each.close()


def test_finite_checks_the_first_step_and_node_is_named() -> None:
    Later.here = True
    late = AsyncFiniteChecks(nn.Identity())
    late.check_features(feat())
    late.check_probability(torch.zeros(4), None, 1)
    late.check_probability(torch.tensor([0.0, 0.0, 1.0, 0.5]), None, 2)
    late.check_probability(torch.tensor([0.0, 0.0, NAN, NAN]), None, 3)
    with pytest.raises(ValueError, match="node 2 is NaN at step 3"):
        late.close()
    with pytest.raises(ValueError, match="node 2 is NaN at step 3"):
        FiniteChecks().check_probability(torch.tensor([0.0, NAN]), torch.tensor([0, 2]), 3)
    with pytest.raises(ValueError, match="node 1 is NaN at step 1"):
        FiniteChecks().check_probability(torch.tensor([0.0, NAN]), None, 1)


def test_finite_checks_what_arrives_later_is_said_once_and_of_its_own_layer() -> None:
    broken, other = nn.Identity(), nn.Identity()
    late = AsyncFiniteChecks(broken)
    late.check_features(feat((1, NAN)))
    late.close()
    AsyncFiniteChecks(broken)
    copy.deepcopy(broken)
    Later.here = True
    AsyncFiniteChecks(other)
    with pytest.raises(ValueError, match="a feature of node 1"):
        AsyncFiniteChecks(broken)
    AsyncFiniteChecks(broken)


def test_reports_go_with_their_layer() -> None:
    gc.collect()
    before = len(async_checks._reports)
    layer = nn.Identity()
    late = AsyncFiniteChecks(layer)
    late.check_features(feat())
    late.close()
    assert len(async_checks._reports) == before + 1
    del late, layer
    gc.collect()
    assert len(async_checks._reports) == before


@pytest.mark.gpu
def test_finite_checks_from_a_gpu() -> None:
    sent = AsyncHostCopy(torch.tensor([3, 4], device="cuda"))
    torch.cuda.synchronize()
    assert sent.arrived() and sent.numbers() == [3, 4]
