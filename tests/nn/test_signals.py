import numpy as np
import pytest
import torch
from torch import Tensor

from graphut.nn import (
    AdaptiveRecurrence,
    LearnedSignal,
    ScheduledHalting,
    SinusoidalSignal,
    coordinate_signal,
)
from graphut.nn.signals import encode, step_signals
from tests.helpers import assert_same, normal, refuses, relative_error
from tests.nn.cases import BLOCK, FEATS, MODES, build_case, build_step, run_step


@pytest.mark.parametrize("norm", MODES["norm"])
def test_copied_equals_frozen_without_a_step_signal(norm: str) -> None:
    found = []
    for halted in ("copied", "frozen"):
        case = build_case(halted=halted, norm=norm, step_signal=None, inject_input=True)
        out, ponder = case.layer(case.graph, case.feat, positions=case.positions)
        found.append((out, ponder.projected))
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1] < 50  # 10 nodes in 5 steps


@pytest.mark.parametrize("halted", MODES["halted"])
def test_injected_states_of_the_other_sources_of_a_block(halted: str) -> None:
    layer = build_case(halted=halted, inject_input=True, step_signal=None).layer
    layer.halting = ScheduledHalting(torch.tensor([2, 2]), share=0.25)
    feat = normal(5, FEATS)
    first = run_step(layer.step, BLOCK, 2 * feat)
    second = run_step(layer.step, BLOCK, torch.cat([first + feat[:2], 2 * feat[2:]]))
    assert relative_error(layer(BLOCK, feat)[0], 0.25 * first + 0.75 * second) < 1e-10


def test_sinusoidal_signal_counts_from_one_or_zero() -> None:
    steps = torch.arange(1, 6)
    for count_from, first in ((1, steps), (0, steps - 1)):
        expected = coordinate_signal(first, 6, torch.float64)
        signal = SinusoidalSignal(6, count_from=count_from)
        assert torch.equal(signal(steps), expected)
        for dtype in (torch.float32, torch.float64):
            like = torch.zeros(1, 6, dtype=dtype)
            assert torch.equal(step_signals(signal, 5, like), expected.to(dtype))
            rows = encode(signal, steps[[4, 0, 4]], like)
            assert torch.equal(rows, expected[[4, 0, 4]].to(dtype))


def test_learned_step_signal_has_a_row_for_each_step() -> None:
    layer = AdaptiveRecurrence(build_step(), max_steps=4, step_signal="learned").double()
    before = layer.state_dict()["step_signal.weight"].clone()
    assert before.shape == (4, FEATS)
    layer.reset_parameters()
    assert not (layer.state_dict()["step_signal.weight"] == before).any()
    layer.max_steps = 5
    with pytest.raises(ValueError, match="signal of size 4 has rows for 1 to 4, not for 5"):
        layer(build_case().graph, normal(10, FEATS))


@pytest.mark.parametrize("value", [-1, 0, 4, 1.5])
def test_learned_signal_names_a_coordinate_without_a_row(value: float) -> None:
    with pytest.raises(ValueError, match=f"of size 3 has rows for 1 to 3, not for {value}: change"):
        LearnedSignal(3, 4)(torch.tensor([1, value, 2]))


def test_learned_signal_begins_at_its_first_coordinate() -> None:
    signal = LearnedSignal(3, 4, first=0)
    assert torch.equal(signal(torch.tensor([2.0, 0.0])), signal.weight[[2, 0]])


def test_encode_checks_the_rows_of_a_signal() -> None:
    def own(coordinates: Tensor) -> Tensor:
        return coordinates[..., None].expand(-1, 6).float()

    like = torch.zeros(1, 6, dtype=torch.float64)
    rows = encode(own, torch.tensor([3, 1, 3]), like)
    assert rows[:, 0].tolist() == [3, 1, 3] and rows.dtype == torch.float64
    with pytest.raises(ValueError, match=r"of shape \(2, 6\) for 2 .* one row of 5 features"):
        encode(own, torch.tensor([1, 2]), like[:, :5])
    with pytest.raises(ValueError, match=r"rows of shape \(2, 2, 4\) for 2 coordinates"):
        encode(LearnedSignal(3, 4), torch.ones(2, 2), torch.zeros(1, 4))


def test_encode_is_differentiable_in_coordinates() -> None:
    places, like = normal(3), torch.zeros(1, 4)
    encode(SinusoidalSignal(4), places, like)[:, 0].sum().backward()
    assert_same([places.grad], [places.cos()], 1e-6)


def by_numpy(values: list[float], dim: int) -> np.ndarray:
    j = np.arange(dim) // 2
    angle = np.array(values, dtype=np.float64)[:, None] / 10000.0 ** (2 * j / dim)
    return np.where(np.arange(dim) % 2 == 0, np.sin(angle), np.cos(angle))


@pytest.mark.parametrize("dim", [1, 2, 7, 8, 512])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-8), (torch.float32, 1e-7)])
def test_coordinate_signal_is_as_exact_at_a_million_as_at_one(
    dtype: torch.dtype, error: float, dim: int
) -> None:
    values = [1, 2, 64, 999_999, 10**6, 2**24 + 1, 0]
    signal = coordinate_signal(torch.tensor(values), dim, dtype)
    assert signal.dtype == dtype
    assert np.abs(signal.double().numpy() - by_numpy(values, dim)).max() <= error


def test_coordinate_signal_accepts_numbers_and_tensors_of_any_shape() -> None:
    table = coordinate_signal(torch.arange(5), 6)
    assert torch.equal(coordinate_signal(3, 6), table[3])
    assert torch.equal(coordinate_signal(torch.tensor([3.0, 0.0]), 6), table[[3, 0]])
    grid = torch.tensor([[4, 4], [1, 4]], dtype=torch.int32)
    assert torch.equal(coordinate_signal(grid, 6), table[grid.long()])
    assert coordinate_signal(torch.tensor([]), 6).shape == (0, 6)
    between = coordinate_signal(torch.tensor([2.5]), 6, torch.float64).numpy()
    np.testing.assert_allclose(between, by_numpy([2.5], 6))
    refuses("dim must be at least 1, got 0", coordinate_signal, 1, 0)


def test_sinusoidal_signal_of_several_coordinates() -> None:
    places = torch.tensor([[1, 9], [4, 0], [2, 2]])
    signal = SinusoidalSignal(12)
    halves = [coordinate_signal(column, 6, torch.float64) for column in places.T]
    assert torch.equal(signal(places), torch.cat(halves, 1))
    alone = coordinate_signal(places[:, 0], 12, torch.float64)
    assert torch.equal(signal(places[:, 0]), alone) and torch.equal(signal(places[:, :1]), alone)
    for several in (2, 0):
        with pytest.raises(ValueError, match=f"9 features do not divide into {several} coordina"):
            SinusoidalSignal(9)(places[:, :several])
