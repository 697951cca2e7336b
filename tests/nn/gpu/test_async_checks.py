import copy
import gc
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from graphut.nn.gpu import async_checks
from graphut.nn.gpu.async_checks import NO_ERROR, AsyncFiniteChecks, synchronize
from graphut.nn.loop import FiniteChecks
from tests.gpu_stand_in import gpu_stand_in

NAN, INF = torch.nan, torch.inf


class Copies:
    """A switch: copies to the host arrive while `arrive` is True."""

    arrive = True


@pytest.fixture
def copies() -> Iterator[Copies]:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    found = Copies()
    with gpu_stand_in(arrives=lambda: found.arrive):
        yield found


def feat(*wrong: tuple[int, float]) -> Tensor:
    rows = torch.zeros(4, 3)
    for node, value in wrong:
        rows[node, 1] = value
    return rows


@pytest.mark.usefixtures("copies")
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_finite_checks_features(value: float) -> None:
    with pytest.raises(ValueError, match=f"feature 1 of node 2 is {value}"):
        FiniteChecks().check_features(feat((2, value), (3, value)))
    with pytest.raises(ValueError, match="a feature of node 2 is not a finite number"):
        AsyncFiniteChecks(nn.Identity()).check_features(feat((2, value), (3, value)).cuda())


@pytest.mark.usefixtures("copies")
def test_finite_checks_numbers_whose_sum_is_not_finite_pass() -> None:
    large = torch.full((2, 3), 3e38)
    FiniteChecks().check_features(large)
    AsyncFiniteChecks(nn.Identity()).check_features(large.cuda())


def test_finite_checks_name_the_first_node() -> None:
    with pytest.raises(ValueError, match="node 2 is NaN at step 3"):
        FiniteChecks().check_probability(torch.tensor([0.0, NAN]), torch.tensor([0, 2]), 3)
    with pytest.raises(ValueError, match="node 1 is outside of"):
        FiniteChecks().check_probability(torch.tensor([0.0, 2.0]), None, 1)


@pytest.mark.usefixtures("copies")
def test_async_finite_checks_name_the_first_step_and_node() -> None:
    codes = torch.tensor([NO_ERROR, 16 * 4 + 1, 16 * 3 + 2, NO_ERROR], dtype=torch.int32)
    with pytest.raises(ValueError, match="node 2 is NaN at step 3"):
        AsyncFiniteChecks(nn.Identity()).note(codes.cuda(), 16)


@pytest.mark.parametrize("waits", [False, True])
def test_what_arrives_later_is_said_once_and_of_its_own_layer(copies: Copies, waits: bool) -> None:
    broken, other = nn.Identity(), nn.Identity()
    copies.arrive = False
    AsyncFiniteChecks(broken).check_features(feat((1, NAN)).cuda())
    AsyncFiniteChecks(broken)
    copy.deepcopy(broken)
    copies.arrive = not waits
    AsyncFiniteChecks(other)
    with pytest.raises(ValueError, match="a feature of node 1"):
        synchronize() if waits else AsyncFiniteChecks(broken)
    AsyncFiniteChecks(broken)


def test_reports_go_with_their_layer(copies: Copies) -> None:
    gc.collect()
    copies.arrive = False
    before = len(async_checks._reports)
    layer = nn.Identity()
    AsyncFiniteChecks(layer).check_features(feat().cuda())
    assert len(async_checks._reports) == before + 1
    del layer
    gc.collect()
    assert len(async_checks._reports) == before


@pytest.mark.gpu
def test_async_finite_checks_on_a_gpu() -> None:
    layer = nn.Identity()
    with pytest.raises(ValueError, match="a feature of node 1"):  # noqa: PT012
        AsyncFiniteChecks(layer).check_features(feat((1, NAN)).cuda())
        synchronize()
