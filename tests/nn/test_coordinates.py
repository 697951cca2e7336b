from __future__ import annotations

import numpy as np
import pytest
import torch

from graphut.nn import coordinate_signal
from graphut.nn.coordinates import _sinusoid, position_encoding


def by_numpy(values: list[float], dim: int) -> np.ndarray:
    j = np.arange(dim) // 2
    angle = np.array(values, dtype=np.float64)[:, None] / 10000.0 ** (2 * j / dim)
    return np.where(np.arange(dim) % 2 == 0, np.sin(angle), np.cos(angle))


@pytest.mark.parametrize("dim", [1, 2, 7, 8, 512])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-8), (torch.float32, 1e-7)])
def test_coordinates_the_formula_as_exact_at_a_million_as_at_one(
    dtype: torch.dtype, error: float, dim: int
) -> None:
    values = [1, 2, 64, 999_999, 10**6, 2**24 + 1, 0]
    signal = coordinate_signal(torch.tensor(values), dim, dtype)
    assert signal.dtype == dtype
    assert np.abs(signal.double().numpy() - by_numpy(values, dim)).max() <= error


def test_coordinates_values_of_any_kind_and_shape() -> None:
    table = coordinate_signal(torch.arange(5), 6)
    assert torch.equal(coordinate_signal(3, 6), table[3])
    assert torch.equal(coordinate_signal(torch.tensor([3.0, 0.0]), 6), table[[3, 0]])
    assert torch.equal(
        coordinate_signal(torch.tensor([[4, 4], [1, 4]], dtype=torch.int32), 6),
        table[torch.tensor([[4, 4], [1, 4]])],
    )
    assert coordinate_signal(torch.tensor([]), 6).shape == (0, 6)
    between = coordinate_signal(torch.tensor([2.5]), 6, torch.float64).numpy()
    np.testing.assert_allclose(between, by_numpy([2.5], 6))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_coordinates_off_the_cpu_no_value_is_looked_at(shape: tuple[int, ...]) -> None:
    assert coordinate_signal(torch.ones(shape, device="meta"), 5).shape == (*shape, 5)
    few = torch.arange(6).reshape(2, 3)
    assert torch.equal(_sinusoid(few, 5, torch.float32), coordinate_signal(few, 5))


def test_several_coordinates_stand_side_by_side() -> None:
    places = torch.tensor([[1, 9], [4, 0], [2, 2]])
    found = position_encoding(places, 12, torch.float64)
    halves = [coordinate_signal(column, 6, torch.float64) for column in places.T]
    assert torch.equal(found, torch.cat(halves, 1))
    assert torch.equal(position_encoding(places[:, 0], 12), coordinate_signal(places[:, 0], 12))
    assert torch.equal(position_encoding(places[:, :1], 12), coordinate_signal(places[:, 0], 12))
    with pytest.raises(ValueError, match="9 features do not divide into 2 coordinates"):
        position_encoding(places, 9)
    with pytest.raises(ValueError, match="9 features do not divide into 0 coordinates"):
        position_encoding(places[:, :0], 9)


@pytest.mark.parametrize("dim", [0, -4])
def test_coordinates_a_signal_has_features(dim: int) -> None:
    with pytest.raises(ValueError, match=f"dim must be at least 1, got {dim}"):
        coordinate_signal(1, dim)
